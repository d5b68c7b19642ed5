"""Pages of properties, however they are written, are read as pyvmomi reads them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.decodings import Judged, stub_of
from tests.unit.vsphere.soap_answers import ENVELOPE, VERSION
from vgpu_cfg.vsphere.reading.passes import OF_VMS
from vgpu_cfg.vsphere.wire.decoding import Decoder, Found, UnreadableAnswer

STUB = stub_of(VERSION)
PATHS = ("name", "config.hardware.numCPU", "config.hardware.device", "config.extraConfig", "datastore")
READERS = Decoder(STUB).readers("vim.VirtualMachine", PATHS, OF_VMS)


def page(*objects: str, after: str = "") -> bytes:
    inner = f"<returnval>{''.join(objects)}</returnval>{after}"
    return ENVELOPE.format(f'<XResponse xmlns="urn:vim25">{inner}</XResponse>').encode()


def vm(moid: str, *properties: str, after: str = "") -> str:
    return f'<objects><obj type="VirtualMachine">{moid}</obj>{"".join(properties)}{after}</objects>'


def prop(path: str, value: str) -> str:
    return f"<propSet><name>{path}</name><val xsi:type={value}</val></propSet>"


def device(key: int, kind: str = "ParaVirtualSCSIController", more: str = "") -> str:
    filled = f"<deviceInfo><label>{'a' * 300}</label><summary>b</summary></deviceInfo>"
    return f'<VirtualDevice xsi:type="{kind}"><key>{key}</key>{filled}{more}</VirtualDevice>'


def devices(*those: str) -> str:
    return prop("config.hardware.device", '"ArrayOfVirtualDevice">' + "".join(those))


def name(text: str) -> str:
    return prop("name", f'"xsd:string">{text}')


CPUS = prop("config.hardware.numCPU", '"xsd:int">4')
DATASTORE = '<ManagedObjectReference type="Datastore">d-1</ManagedObjectReference>'
DATASTORES = prop("datastore", f'"ArrayOfManagedObjectReference">{DATASTORE}')
FOUR = devices(*(device(key) for key in (1000, 1001, 1002, 1003)))
OTHER = devices(*(device(key) for key in (1000, 1009, 1002, 1004, 1003)))
MISSING = (
    '<missingSet><path>config.extraConfig</path><fault><fault xsi:type="NoPermission">'
    "<privilegeId>a.b</privilegeId></fault><localizedMessage>no</localizedMessage></fault></missingSet>"
)


SECRET = f"<![CDATA[</val></propSet>{CPUS}{FOUR}]]>"


def read(text: bytes) -> list[Found]:
    """Return the objects of a page; each is held beside pyvmomi's reading."""
    return list(Judged(STUB).objects(text, READERS, lambda _mark: None))


@pytest.mark.parametrize(
    "odd",
    [
        vm("vm-2", name(SECRET), CPUS),
        vm("vm-2", f"<!-- {CPUS} -->", name("a")),
        vm("vm-2", name("a")) + f"<!-- {vm('vm-3', CPUS, FOUR)} -->",
        vm("vm-2", f"<?a {CPUS}?>", name("a")),
        vm("vm-2", '<propSet><name>name</name><val xmlns:x="urn:x" xsi:type="xsd:string">a</val></propSet>')
        * 2,
        vm("vm-2", name("a"), after=MISSING) * 3,
        vm("vm-2", FOUR, after=MISSING) * 3,
        vm("vm-2", name("a"), after=MISSING) + vm("vm-3", name("a")),
        vm("vm-2", "<propSet><name>name</name></propSet>", CPUS) * 2,
        vm("vm-2", name("a").replace("><", ">\n  <"), CPUS.replace("><", ">\n  <")) * 2,
        vm("vm-2", FOUR.replace("</VirtualDevice>", "</VirtualDevice >")) * 2,
        vm("vm-2", FOUR.replace("</val>", "\n</val>")) * 2,
        vm("vm-2", prop("config.hardware.device", '"ArrayOfVirtualDevice">')) * 2,
        vm("vm-2", devices(device(9000, "VirtualKeyboard"), device(1000), device(9000, "VirtualKeyboard")))
        * 2,
        vm("vm-2", prop("config.changeVersion", '"xsd:string">4')) * 2,
        vm("vm-2").replace("<objects>", "<objects >") * 2,
    ],
    ids=range(16),
)
def test_what_is_written_otherwise_is_read_as_by_pyvmomi(odd: str) -> None:
    read(page(vm("vm-1", CPUS, FOUR), odd, vm("vm-4", CPUS, FOUR), vm("vm-5", CPUS, FOUR)))


@pytest.mark.parametrize(
    "wrong",
    [
        vm("vm-2", CPUS, name("<a>")),
        vm("vm-2", CPUS, "</objects>"),
        vm("vm-2", CPUS)[: -len("</objects>")],
        vm("vm-2", CPUS, name("</val></propSet><propSet ><name>a</name><val>")),
        vm("vm-2", name(vm("vm-3", CPUS))),
        vm("vm-2", name("</val></propSet>" + vm("vm-3"))),
    ],
    ids=range(6),
)
def test_a_page_that_is_no_xml_is_refused(wrong: str) -> None:
    with pytest.raises(UnreadableAnswer):
        list(Decoder(STUB).objects(page(vm("vm-1", CPUS), wrong), READERS, lambda _mark: None))


PIECES = st.sampled_from(
    [name("a"), name("b &amp; c"), name("<![CDATA[d]]>"), "<!-- e -->", CPUS, DATASTORES, FOUR, OTHER, "\n"]
)
OBJECTS = st.builds(
    lambda pieces, after: vm("vm-1", *pieces, after=after),
    st.lists(PIECES, max_size=4, unique_by=lambda piece: piece[:40]),
    st.sampled_from(["", "", MISSING, "\n"]),
)


@given(st.lists(OBJECTS, max_size=6))
def test_any_page_is_read_as_by_pyvmomi(objects: list[str]) -> None:
    read(page(*objects))


@given(st.lists(OBJECTS, min_size=2, max_size=4), st.data())
def test_any_page_that_breaks_off_is_refused(objects: list[str], data: st.DataObject) -> None:
    whole = page(*objects)
    end = data.draw(st.integers(0, len(whole) - 2))
    with pytest.raises(UnreadableAnswer):
        list(Decoder(STUB).objects(whole[:end], READERS, lambda _mark: None))
