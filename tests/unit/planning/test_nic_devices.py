"""NICs that are functions, as devices of a VM: kept where it has them, added and removed where not."""

from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.parts import parts
from tests.unit.planning.test_nic_needs import FIRST, SECOND, VIRTUAL, WHOLE, cut, stock, whole
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.kinds.vm_spec import (
    NewDynamicPassthrough,
    NewPassthrough,
    NewSriovNic,
    NicBacking,
    RemoveDevice,
)
from vgpu_cfg.model.desired import DesiredFunction, DesiredPlan, DesiredVm, TemplateSource
from vgpu_cfg.model.observed.vm import PassthroughDevice, VirtualNic, VmDetail
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.capacity.nic_needs import NicNeed, NicStock
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.checks.nic_checks import check_bound, check_functions
from vgpu_cfg.planning.vms.devices import compare_functions, plan_functions
from vgpu_cfg.planning.vms.lookup.wanted import WantedFunction, WantedNic, has_wanted_functions, nic_needs

LAN = NicBacking(network_moid="network-1", network_name="roce-111")
OTHER = NicBacking(network_moid="network-2", network_name="roce-112")
HOST = stock(whole(FIRST, label="rail"), cut(SECOND, 4)).capacity.host
MAC = "00:50:56:01:02:03"


def passed(pin: str | None = None, label: str | None = None, model: str | None = None) -> WantedFunction:
    wanted = DesiredFunction(kind="passthrough", pin=pin, label=label, model=model)
    return WantedFunction(wanted, is_ethernet=False)


def virtual(backing: NicBacking = LAN, pin: str | None = None, mac: str | None = None) -> WantedFunction:
    return WantedFunction(DesiredFunction(kind="sriov", pin=pin), backing, mac, is_ethernet=False)


def has(*devices: PassthroughDevice | VirtualNic) -> VmDetail:
    return VmDetail(
        passthrough=tuple(one for one in devices if isinstance(one, PassthroughDevice)),
        nics=tuple(one for one in devices if isinstance(one, VirtualNic)),
    )


FIXED = PassthroughDevice(key=13000, pci_id=FIRST, is_nic=True)
LABELLED = PassthroughDevice(key=13001, allowed=((0x15B3, 0x101D),), label="rail", is_nic=True)
GPU = PassthroughDevice(key=13002, pci_id="0000:3b:00.0")
FUNCTION = VirtualNic(key=13031, kind="sriov", network="network-1", mac=MAC, function=SECOND)
PLAIN = VirtualNic(key=4000, kind="vmxnet3", network="network-1", mac=MAC)


@pytest.mark.parametrize(
    ("wanted", "own", "edits"),
    [
        ([], has(), []),
        ([], has(GPU, PLAIN), []),
        ([passed()], has(FIXED, GPU), []),
        ([passed()], has(GPU), [NewPassthrough]),
        ([passed(pin=FIRST)], has(FIXED), []),
        ([passed(pin=SECOND)], has(FIXED), [RemoveDevice, NewPassthrough]),
        ([passed(model="ConnectX-6 Dx")], has(FIXED), []),
        ([passed(model="ConnectX-7")], has(FIXED), [RemoveDevice, NewPassthrough]),
        ([passed(label="rail")], has(LABELLED), []),
        ([passed(label="rail", model="ConnectX-6 Dx")], has(LABELLED), []),
        ([passed(label="rail", model="ConnectX-7")], has(LABELLED), [RemoveDevice, NewDynamicPassthrough]),
        ([passed(label="other")], has(LABELLED), [RemoveDevice, NewDynamicPassthrough]),
        ([passed()], has(LABELLED), [RemoveDevice, NewPassthrough]),
        ([passed(), passed(pin=FIRST)], has(FIXED), [NewPassthrough]),
        ([virtual()], has(FUNCTION, PLAIN), []),
        ([virtual()], has(PLAIN), [NewSriovNic]),
        ([virtual(mac=MAC)], has(FUNCTION), []),
        ([virtual(mac="00:50:56:09:09:09")], has(FUNCTION), [RemoveDevice, NewSriovNic]),
        ([virtual(OTHER)], has(FUNCTION), [RemoveDevice, NewSriovNic]),
        ([virtual(pin=SECOND)], has(FUNCTION), []),
        ([virtual(pin=FIRST)], has(FUNCTION), [RemoveDevice, NewSriovNic]),
        ([], has(FIXED, FUNCTION), [RemoveDevice, RemoveDevice]),
    ],
)
def test_functions_are_matched_by_what_they_are(
    wanted: list[WantedFunction], own: VmDetail, edits: list[type]
) -> None:
    plans = plan_functions(wanted, own, HOST, [nic.function.pin or FIRST for nic in wanted])
    found = parts(compare_functions(plans, own, {"network-1": "roce-111"}))
    assert [type(edit) for edit in (*found.removals, *found.additions)] == edits
    assert len(found.edits) == len(edits)
    assert has_wanted_functions(wanted, own, HOST) is (edits == [])


def test_whether_a_vm_has_what_is_wanted() -> None:
    assert has_wanted_functions(None, has(FIXED), HOST)
    assert has_wanted_functions([passed(), WantedNic(LAN)], has(FIXED, GPU, PLAIN), HOST)
    assert not has_wanted_functions([], has(FIXED), HOST)
    assert not has_wanted_functions([passed(), passed()], has(FIXED), HOST)


def test_a_nic_that_came_with_a_gpu_in_a_device_group_is_the_one_that_is_wanted() -> None:
    held = PassthroughDevice(key=13001, allowed=((0x15B3, 0x1021),), is_nic=True, group_key=1)
    assert has_wanted_functions([passed()], has(held), None)
    assert not has_wanted_functions([passed()], has(held.model_copy(update={"group_key": None})), None)
    assert not has_wanted_functions([passed(), passed()], has(held), None)
    assert not has_wanted_functions([passed(pin="0000:4c:00.0")], has(held), None)


def test_a_new_device_says_what_its_backing_needs() -> None:
    wanted = [passed(), passed(label="rail"), virtual(mac=MAC)]
    fixed, dynamic, sriov = plan_functions(wanted, None, HOST, [FIRST, FIRST, SECOND])
    assert fixed.device == NewPassthrough(
        pci_id=FIRST,
        system_id="system-0",
        vendor_id=0x15B3,
        device_id=0x101D,
        device_name="MT2892 Family [ConnectX-6 Dx]",
    )
    assert dynamic.device == NewDynamicPassthrough(allowed=((0x15B3, 0x101D),), label="rail")
    assert sriov.device == NewSriovNic(backing=LAN, function=SECOND, mac=MAC)


def test_without_a_place_there_is_no_device() -> None:
    (plan,) = plan_functions([passed()], None, HOST, [])
    assert plan.device is None
    assert plan.keeps is None


@pytest.mark.parametrize(
    ("nics", "own", "needs"),
    [
        (None, None, []),
        (None, has(FIXED, GPU, FUNCTION), [NicNeed(WHOLE, FIRST), NicNeed(VIRTUAL, SECOND)]),
        ([passed(), WantedNic(LAN)], None, [NicNeed(WHOLE)]),
        ([passed()], has(FIXED), [NicNeed(WHOLE, FIRST)]),
        ([virtual()], has(), [NicNeed(VIRTUAL, network="network-1")]),
        ([virtual()], has(FUNCTION), [NicNeed(VIRTUAL, SECOND, network="network-1")]),
        (
            [passed(label="rail")],
            has(LABELLED),
            [NicNeed(WHOLE, label="rail", allowed=((0x15B3, 0x101D),))],
        ),
    ],
)
def test_a_vm_needs_what_it_asks_for_or_has(
    nics: list[WantedNic | WantedFunction] | None, own: VmDetail | None, needs: list[NicNeed]
) -> None:
    assert list(nic_needs(nics, own, HOST)) == needs


def told(findings: Findings) -> list[str]:
    return [found.code for found in findings.diagnostics()]


@pytest.fixture
def findings() -> Findings:
    return Findings.for_plan(DesiredPlan(name="demo", vcenter="vc"))


VM = DesiredVm(name="a", line="a", source=TemplateSource(path_or_name="t"))


@pytest.mark.parametrize(
    ("gpu_nodes", "possible", "codes"),
    [([1], [1], ["VG409"]), ([0], [0], []), ([None], [None], []), ([0], [0, 1], ["VG317"]), ([], [], [])],
)
def test_a_nic_far_from_its_gpu_is_told(
    gpu_nodes: list[int | None], possible: list[int | None], codes: list[str], findings: Findings
) -> None:
    needs = [NicNeed(WHOLE, near_gpu=True)]
    check_functions(VM, needs, [FIRST], stock(whole(FIRST)), gpu_nodes, findings, possible)
    assert told(findings) == codes


@pytest.mark.parametrize(
    ("count", "labels", "codes"),
    [(1, ("rail", "rail"), ["VG317"]), (1, ("rail", "other"), []), (2, ("rail", "rail"), ["VG409"])],
)
def test_esxi_may_assign_any_nic_of_a_label(
    count: int, labels: tuple[str, str], codes: list[str], findings: Findings
) -> None:
    have = stock(whole(FIRST, 0, label=labels[0]), whole(SECOND, 1, label=labels[1]))
    needs = [NicNeed(WHOLE, label="rail", near_gpu=True)] * count
    check_functions(VM, needs, (FIRST, SECOND)[:count], have, [0], findings, [0])
    assert told(findings) == codes


def test_of_a_nic_that_may_be_anywhere_nothing_is_told(findings: Findings) -> None:
    check_functions(VM, [NicNeed(WHOLE)], [FIRST], stock(whole(FIRST)), [1], findings, [0, 1])
    assert told(findings) == []


@pytest.mark.parametrize(("network", "codes"), [("network-roce-111", []), ("network-else", ["VG418"])])
def test_a_virtual_functions_network_is_on_its_nics_switch(
    network: str, codes: list[str], findings: Findings
) -> None:
    have = stock_on_a_switch()
    check_functions(VM, [NicNeed(VIRTUAL, network=network)], [FIRST], have, [], findings)
    assert told(findings) == codes


def stock_on_a_switch() -> NicStock:
    switch = {"name": "dvs-roce", "uplinks": ["vmnic2"], "switch_uuid": "50 0f"}
    observed = make_inventory(
        {
            "hosts": {"esx-01": {"nics": [cut(FIRST, 4, vmnic="vmnic2")], "facts": {"switches": [switch]}}},
            "networks": {"roce-111": {"kind": "distributed"}},
            "switches": {"dvs-roce": {"uuid": "50 0f", "vlans": {"roce-111": 111}, "members": {}}},
        }
    )
    found = CapacityReader(observed, load_catalog()).read(observed.hosts[0])
    return NicStock(found, {}, {})


@pytest.mark.parametrize(
    ("wanted", "is_known", "codes"),
    [
        (passed(), True, ["VG311"]),
        (passed(), False, ["VG137", "VG311"]),
        (passed(label="rail"), False, []),
        (virtual(), False, ["VG417"]),
    ],
)
def test_what_binds_a_vm_to_its_host_is_told(
    wanted: WantedFunction, is_known: bool, codes: list[str], findings: Findings
) -> None:
    host = HOST if is_known else HOST.model_copy(update={"system_id": None})
    check_bound(VM, plan_functions([wanted], None, HOST, [FIRST]), host, findings)
    assert told(findings) == codes
