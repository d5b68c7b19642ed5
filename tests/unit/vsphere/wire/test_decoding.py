"""Answers become the values that pyvmomi's own reader makes of them, and what it refuses is refused."""

from __future__ import annotations

import gc
from datetime import datetime
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from tests.decodings import Judged, is_refused_by_both, stub_of
from tests.unit.vsphere.soap_answers import ENVELOPE, VERSION, fault
from vgpu_cfg.vsphere.reading.passes import OF_HOSTS, OF_VMS
from vgpu_cfg.vsphere.wire.decoding import Decoder, Moid, UnreadableAnswer

ENTITIES: Any = VmomiSupport.GetVmodlType("vim.ManagedEntity[]")


@pytest.fixture(scope="module")
def stub() -> Any:
    return stub_of(VERSION)


def answer(inner: str) -> bytes:
    return ENVELOPE.format(f'<XResponse xmlns="urn:vim25">{inner}</XResponse>').encode()


@pytest.mark.parametrize(
    ("inner", "result"),
    [
        ("", str),
        ("<returnval>a &amp; b&#x20AC;<![CDATA[<c>]]></returnval>", str),
        ("<returnval/>", str),
        ("<returnval>true</returnval>", bool),
        ("<returnval>0</returnval>", bool),
        ("<returnval>-7</returnval>", int),
        ("<returnval>2026-11-24T01:02:03.004Z</returnval>", datetime),
        ("<returnval>2026-11-24T01:02:03+02:00</returnval>", datetime),
        ("<returnval>poweredOn</returnval>", vim.VirtualMachine.PowerState),
        ('<returnval type="VirtualMachine">vm-7</returnval>', vim.VirtualMachine),
        ('<returnval type="VirtualMachine" serverGuid="g">vm-7</returnval>', vim.VirtualMachine),
        (
            '<returnval type="VirtualMachine">vm-7</returnval><returnval type="HostSystem">h</returnval>',
            ENTITIES,
        ),
    ],
)
def test_values_without_parts(inner: str, result: Any, stub: Any) -> None:
    Judged(stub).read(answer(inner), result)


def test_what_a_server_leaves_out_is_unset_and_its_lists_are_empty(stub: Any) -> None:
    found: Any = Judged(stub).read(answer("<returnval><name>x</name></returnval>"), vim.vm.ConfigInfo)
    assert found.name == "x"
    assert found.hardware is None
    assert found.extraConfig == []


@pytest.mark.parametrize(
    "value",
    [
        '<val xsi:type="xsd:string">text</val>',
        '<val xsi:type="xsd:int">4</val>',
        '<val xsi:type="xsd:boolean">false</val>',
        '<val xsi:type="xsd:base64Binary">AAEC</val>',
        '<val xsi:type="ManagedObjectReference" type="Folder">group-1</val>',
        '<val xsi:type="ArrayOfString"><string>a</string><string/></val>',
        '<val xsi:type="ArrayOfManagedObjectReference">'
        '<ManagedObjectReference type="Datastore">d</ManagedObjectReference></val>',
        '<val xsi:type="ArrayOfVirtualDevice"><VirtualDevice xsi:type="VirtualPCIPassthrough">'
        "<key>13000</key>"
        '<backing xsi:type="VirtualPCIPassthroughVmiopBackingInfo"><vgpu>grid_a100-40c</vgpu></backing>'
        "</VirtualDevice></val>",
        '<val xsi:type="HostHardwareInfo"><pciDevice><id>0000:21:00.0</id></pciDevice></val>',
        '<val xsi:type="LocalizedMethodFault"><fault xsi:type="NoPermission">'
        "<privilegeId>a.b</privilegeId></fault>"
        "<localizedMessage>no</localizedMessage></val>",
    ],
)
def test_values_that_say_their_type(value: str, stub: Any) -> None:
    inner = f"<returnval><name>config.x</name>{value}</returnval>"
    found: Any = Judged(stub).read(answer(inner), vmodl.DynamicProperty)
    assert found.val is not None


@pytest.mark.parametrize("token", [0, 1, 4000])
def test_a_page_that_is_parsed_in_pieces(token: int, stub: Any) -> None:
    objects = [
        f'<objects><obj type="VirtualMachine">vm-{number}</obj><propSet><name>name</name>'
        f'<val xsi:type="xsd:string">{"n" * 100}</val></propSet></objects>'
        for number in range(4000)
    ]
    objects.insert(token, "<token>1</token>")
    page = answer(f"<returnval>{''.join(objects)}</returnval>")
    marks: list[str] = []
    found = list(Judged(stub).objects(page, {}, marks.append))
    assert marks == ["1"]
    assert [moid for _, moid, _, _ in found] == [f"vm-{number}" for number in range(4000)]


DEVICE = '<VirtualDevice xsi:type="{}"><key>2000</key>{}</VirtualDevice>'
DISK = DEVICE.format(
    "VirtualDisk", "<controllerKey>1000</controllerKey><capacityInKB>64</capacityInKB>"
) + DEVICE.format("VirtualKeyboard", "")


def one_property(kind: str, path: str, value: str) -> bytes:
    return answer(
        f'<returnval><objects><obj type="{kind}">x-1</obj>'
        f"<propSet><name>{path}</name><val xsi:type={value}</val></propSet></objects></returnval>"
    )


def kept_of(decoder: Decoder, kind: str, path: str, value: str) -> Any:
    """Return what is kept of a property."""
    table = OF_VMS if kind == "VirtualMachine" else OF_HOSTS
    readers = decoder.readers(f"vim.{kind}", (path,), table)
    ((_, _, values, _),) = decoder.objects(one_property(kind, path, value), readers, lambda _mark: None)
    return values.get(path)


@pytest.mark.parametrize(
    ("kind", "path", "value", "expected"),
    [
        ("VirtualMachine", "name", '"xsd:string">a &amp; b', "a & b"),
        ("VirtualMachine", "config.hardware.memoryMB", '"xsd:int">64', 64),
        ("VirtualMachine", "config.template", '"xsd:boolean">true', True),
        ("VirtualMachine", "runtime.powerState", '"VirtualMachinePowerState">poweredOn', "poweredOn"),
        ("VirtualMachine", "runtime.host", '"ManagedObjectReference" type="HostSystem">host-1', "host-1"),
        (
            "VirtualMachine",
            "datastore",
            '"ArrayOfManagedObjectReference"><ManagedObjectReference type="Datastore">d'
            "</ManagedObjectReference>",
            ["d"],
        ),
        ("HostSystem", "config.sharedPassthruGpuTypes", '"ArrayOfString"><string>a</string>', ["a"]),
        ("HostSystem", "config.sharedPassthruGpuTypes", '"ArrayOfString">', []),
    ],
)
def test_of_a_page_plain_values_are_kept(kind: str, path: str, value: str, expected: Any, stub: Any) -> None:
    found = kept_of(Judged(stub), kind, path, value)
    assert found == expected
    assert type(found) in (str, int, bool, list, Moid)


def test_of_parts_only_those_of_the_table_are_kept(stub: Any) -> None:
    devices = f'"ArrayOfVirtualDevice">{DISK}'
    (disk,) = kept_of(Judged(stub), "VirtualMachine", "config.hardware.device", devices)
    assert isinstance(disk, vim.vm.device.VirtualDisk)
    assert (disk.key, disk.controllerKey, disk.capacityInKB) == (2000, 1000, 64)
    assert "deviceInfo" not in vars(disk)


def test_a_word_that_is_not_known_stays_a_word(stub: Any) -> None:
    word = '"HostSystemConnectionState">teleported'
    assert kept_of(Decoder(stub), "HostSystem", "runtime.connectionState", word) == "teleported"


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("VirtualMachine", "config.hardware.device", f'"ArrayOfVirtualDevice">{DEVICE.format("Teapot", "")}'),
        ("VirtualMachine", "config.hardware.memoryMB", '"xsd:int">much'),
        ("VirtualMachine", "config.template", '"xsd:boolean">perhaps'),
    ],
)
def test_what_is_kept_and_does_not_fit_is_refused(kind: str, path: str, value: str, stub: Any) -> None:
    with pytest.raises(UnreadableAnswer):
        kept_of(Decoder(stub), kind, path, value)


def test_a_page_that_is_a_fault_raises_it(stub: Any) -> None:
    lacking = fault(vim.fault.NotAuthenticated(privilegeId="a.b"))[2]
    with pytest.raises(vim.fault.NotAuthenticated):
        list(Judged(stub).objects(lacking, {}, lambda _mark: None))


@pytest.mark.parametrize("text", [b"", b"<html><body>busy</body></html>", answer("<returnval>")[:-60]])
def test_a_page_that_is_none_is_refused(text: bytes, stub: Any) -> None:
    with pytest.raises(UnreadableAnswer):
        list(Decoder(stub).objects(text, {}, lambda _mark: None))


def test_an_unknown_subtype_is_refused_by_name(stub: Any) -> None:
    inner = '<returnval><name>a</name><val xsi:type="VirtualTeapot"/></returnval>'
    assert "VirtualTeapot" in is_refused_by_both(stub, answer(inner), vmodl.DynamicProperty)


def test_a_fault_is_what_its_detail_says_with_its_message(stub: Any) -> None:
    found: Any = Judged(stub).read(fault(vim.fault.NoPermission(privilegeId="a.b"), "may not")[2], str)
    assert (type(found), found.msg) == (vim.fault.NoPermission, "may not")


def test_a_fault_without_detail_is_one_of_the_runtime(stub: Any) -> None:
    body = "<soapenv:Fault><faultcode>S</faultcode><faultstring>broke</faultstring></soapenv:Fault>"
    found: Any = Judged(stub).read(ENVELOPE.format(body).encode(), str)
    assert (type(found), found.msg) == (vmodl.RuntimeFault, "broke")


def test_a_task_carries_its_fault(stub: Any) -> None:
    inner = (
        '<returnval><key>t</key><task type="Task">task-1</task><state>error</state>'
        '<error><fault xsi:type="InvalidState"/>'
        "<localizedMessage>not now</localizedMessage></error></returnval>"
    )
    found: Any = Judged(stub).read(answer(inner), vim.TaskInfo)
    assert (type(found.error), found.error.msg) == (vim.fault.InvalidState, "not now")


@pytest.mark.parametrize(
    ("inner", "result"),
    [
        ("<returnval><nonsense>1</nonsense></returnval>", vim.vm.ConfigInfo),
        ("<returnval>maybe</returnval>", bool),
        ("<returnval>twelve</returnval>", int),
        ("<returnval>yesterday</returnval>", datetime),
        ("<returnval>asleep</returnval>", vim.VirtualMachine.PowerState),
        ("<returnval><a>1</a></returnval>", str),
        ("<returnval>vm-7</returnval>", vim.VirtualMachine),
        ("<returnval><name>a</returnval>", vmodl.DynamicProperty),
        ("<returnval>&undefined;</returnval>", str),
        ('<returnval><name xsi:type="xsd:int">7</name></returnval>', vim.vm.ConfigInfo),
        ('<returnval><hardware xsi:type="VirtualDisk"/></returnval>', vim.vm.ConfigInfo),
    ],
)
def test_what_does_not_fit_is_refused(inner: str, result: Any, stub: Any) -> None:
    assert is_refused_by_both(stub, answer(inner), result)


@pytest.mark.parametrize("end", [1, 20, 60, -1])
def test_an_answer_that_breaks_off_is_refused(end: int, stub: Any) -> None:
    whole = answer("<returnval>text</returnval>")
    with pytest.raises(UnreadableAnswer):
        Decoder(stub).read(whole[:end], str)


@pytest.mark.parametrize("text", [b"", b"<html><body>busy</body></html>", b"not xml", b"<a/>" * 2])
def test_what_is_no_soap_is_refused(text: bytes, stub: Any) -> None:
    with pytest.raises(UnreadableAnswer):
        Decoder(stub).read(text, str)


def test_entities_that_grow_are_refused(stub: Any) -> None:
    entities = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 12))
    text = f'<!DOCTYPE x [<!ENTITY e0 "{"x" * 100}">{entities}]>' + ENVELOPE.split("\n", 1)[1].format(
        "<XResponse><returnval>&e11;</returnval></XResponse>"
    )
    with pytest.raises(UnreadableAnswer):
        Decoder(stub).read(text.encode(), str)


def test_parts_within_parts_without_end_are_refused(stub: Any) -> None:
    deep = "<childSnapshotList>" * 9000 + "</childSnapshotList>" * 9000
    with pytest.raises(UnreadableAnswer, match="recursion"):
        Decoder(stub).read(answer(f"<returnval>{deep}</returnval>"), vim.vm.SnapshotTree)


@pytest.mark.parametrize("is_on", [True, False])
def test_the_garbage_collector_is_left_as_it_was(is_on: bool, stub: Any) -> None:
    was_on = gc.isenabled()
    (gc.enable if is_on else gc.disable)()
    try:
        Decoder(stub).read(answer("<returnval>text</returnval>"), str)
        with pytest.raises(UnreadableAnswer):
            Decoder(stub).read(b"", str)
        assert gc.isenabled() is is_on
    finally:
        (gc.enable if was_on else gc.disable)()
