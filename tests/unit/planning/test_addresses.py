"""Addresses out of pools, kept and given, and what each NIC is known by in its guest."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.desired import (
    DesiredFunction,
    DesiredGuest,
    DesiredNetwork,
    DesiredNic,
    DesiredPlan,
    DesiredVm,
    TemplateSource,
)
from vgpu_cfg.model.guests.base import ADDRESSES_KEY, KeptAddress, parse_addresses, print_addresses
from vgpu_cfg.model.observed.host_facts import EstateFacts, HostFacts, Vmknic
from vgpu_cfg.model.observed.inventory import Host, HostNic, Inventory, Network, PciDevice, VCenter
from vgpu_cfg.model.observed.vm import GuestNicSeen, GuestSeen, OwnerMark, VirtualNic, Vm, VmDetail
from vgpu_cfg.planning.addresses import MLX5, VMXNET3, AddressBook, NicAddress
from vgpu_cfg.planning.findings.collection import Findings

POOL = DesiredNetwork(
    name="roce-111",
    is_physical=True,
    mtu=9000,
    subnet="10.111.0.0/24",
    pool=("10.111.0.11", "10.111.0.13"),
    gateway="10.111.0.1",
    dns=("10.111.0.12",),
)
LAN = DesiredNetwork(name="vm-network")
WHOLE = DesiredFunction(kind="passthrough")
ROCE = DesiredNic(network="roce-111", function=WHOLE, ip="pool", rdma="gpudirect")
MANAGEMENT = DesiredNic(network="vm-network", ip="dhcp")
FIRST, SECOND = "0000:24:00.0", "0000:24:00.1"
SHORT = "VG640"


def vm(name: str, *nics: DesiredNic, guest: bool = True) -> DesiredVm:
    return DesiredVm(
        name=name,
        line=name,
        source=TemplateSource(path_or_name="ubuntu"),
        nics=nics or (MANAGEMENT, ROCE),
        guest=DesiredGuest(host_name=name) if guest else None,
    )


def plan(*vms: DesiredVm, networks: tuple[DesiredNetwork, ...] = (LAN, POOL)) -> DesiredPlan:
    return DesiredPlan(name="train", vcenter="lab:x", networks=networks, vms=vms)


def seen(
    name: str,
    kept: str = "",
    *addresses: str,
    mark: str | None = "train",
    nics: tuple[VirtualNic, ...] = (),
) -> Vm:
    guest = (
        GuestSeen(nics=(GuestNicSeen(mac="00:50:56:80:00:01", addresses=addresses),)) if addresses else None
    )
    extra = {ADDRESSES_KEY: kept} if kept else {}
    owner = OwnerMark(plan=mark, vm=name) if mark else None
    detail = VmDetail(extra_config=extra, nics=nics, guest=guest)
    return Vm(moid=f"vm-{name}", name=name, mark=owner, detail=detail)


def estate(*vms: Vm, hosts: tuple[Host, ...] = (), vmknic: str = "") -> Inventory:
    facts = {hosts[0].moid: HostFacts(vmknics=(Vmknic(device="vmk2", address=vmknic),))} if vmknic else {}
    return Inventory(
        vcenter=VCenter(address="lab"),
        read_at=datetime(2026, 11, 22, tzinfo=UTC),
        vms=vms,
        hosts=hosts,
        networks=(Network(moid="network-1", name="vm-network"), Network(moid="network-2", name="lan-2")),
        facts=EstateFacts(hosts=facts),
    )


def given(desired: DesiredPlan, observed: Inventory) -> tuple[dict[str, list[str]], list[Diagnostic]]:
    findings = Findings.for_plan(desired)
    found = AddressBook(desired, observed, findings=findings).nics_of_all()
    told = {name: [one for nic in nics for one in nic.addresses] for name, nics in found.items()}
    return told, list(findings.diagnostics())


# ---------------------------------------------------------------- the record


@pytest.mark.parametrize(
    "kept",
    [
        {},
        {1: KeptAddress(address="10.111.0.11/24")},
        {
            0: KeptAddress(address="fd00::11/64"),
            9: KeptAddress(address="10.1.0.1/8", mac="b8:59:9f:00:00:01"),
        },
        {2: KeptAddress(mac="b8:59:9f:00:00:01")},
    ],
)
def test_what_is_kept_can_be_read_again(kept: dict[int, KeptAddress]) -> None:
    assert parse_addresses(print_addresses(kept)) == kept


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nic1",
        "nic0=10.0.0.1/8",
        "nic1=ten",
        "eth1=10.0.0.1/8",
        "nic1=10.0.0.1/8@x",
        "nic1=",
        "=",
        "nic1=/24",
    ],
)
def test_words_that_are_none_are_left_out(text: str) -> None:
    assert parse_addresses(f"{text} nic2=10.0.0.2/8") == {1: KeptAddress(address="10.0.0.2/8")}


# -------------------------------------------------------------------- giving


def test_new_vms_get_the_lowest_addresses_in_the_order_in_which_people_count() -> None:
    told, found = given(plan(vm("hvd-10"), vm("hvd-2")), estate())
    assert told == {"hvd-2": ["10.111.0.11/24"], "hvd-10": ["10.111.0.13/24"]}, "a name server has .12"
    assert not found


def test_a_worker_that_is_added_or_removed_changes_no_other() -> None:
    there = estate(seen("b", "nic2=10.111.0.13/24"))
    told, _ = given(plan(vm("a"), vm("b")), there)
    assert told == {"a": ["10.111.0.11/24"], "b": ["10.111.0.13/24"]}
    assert given(plan(vm("b")), there)[0] == {"b": ["10.111.0.13/24"]}


def test_an_address_is_kept_where_a_nic_before_it_has_gone() -> None:
    told, _ = given(plan(vm("a", ROCE)), estate(seen("a", "nic2=10.111.0.13/24")))
    assert told == {"a": ["10.111.0.13/24"]}


def test_one_of_another_subnet_is_not_kept() -> None:
    told, _ = given(plan(vm("a")), estate(seen("a", "nic2=10.112.0.13/24")))
    assert told == {"a": ["10.111.0.11/24"]}


def test_one_outside_of_a_narrowed_pool_is_kept() -> None:
    told, _ = given(plan(vm("a")), estate(seen("a", "nic2=10.111.0.77/24")))
    assert told == {"a": ["10.111.0.77/24"]}


def test_what_the_guest_shows_is_kept_where_the_record_is_lost() -> None:
    told, _ = given(plan(vm("a")), estate(seen("a", "", "fe80::1/64", "10.9.9.9/24", "10.111.0.13/24")))
    assert told == {"a": ["10.111.0.13/24"]}


@pytest.mark.parametrize(
    "other",
    [
        seen("x", "", "10.111.0.11/24", mark=None),
        seen("x", "nic1=10.111.0.11/24", mark="other"),
        seen("x", "nic1=10.111.0.11/24"),
    ],
    ids=["a guest shows it", "another plan keeps it", "an orphan keeps it"],
)
def test_what_others_have_is_not_given(other: Vm) -> None:
    assert given(plan(vm("a")), estate(other))[0] == {"a": ["10.111.0.13/24"]}


def test_a_vmkernel_nic_has_an_address_too() -> None:
    hosts = (Host(moid="host-1", name="esx-01"),)
    assert given(plan(vm("a")), estate(hosts=hosts, vmknic="10.111.0.11"))[0] == {"a": ["10.111.0.13/24"]}


def test_one_that_the_plan_states_elsewhere_is_not_given() -> None:
    stated = vm("z", DesiredNic(network="roce-111", ip="10.111.0.11/24"))
    told, found = given(plan(vm("a"), stated), estate())
    assert told == {"a": ["10.111.0.13/24"], "z": ["10.111.0.11/24"]}
    assert not found


def test_the_own_address_and_the_broadcast_of_a_subnet_are_never_given() -> None:
    network = DesiredNetwork(name="p2p", subnet="10.0.0.0/30", pool=("10.0.0.0", "10.0.0.3"))
    nic = DesiredNic(network="p2p", ip="pool")
    told, found = given(plan(vm("a", nic), vm("b", nic), vm("c", nic), networks=(network,)), estate())
    assert told == {"a": ["10.0.0.1/30"], "b": ["10.0.0.2/30"], "c": []}
    assert [one.code for one in found] == [SHORT]


def test_the_pool_of_version_6_is_one_too() -> None:
    network = DesiredNetwork(name="six", subnet="fd00::/64", pool=("fd00::11", "fd00::ffff:ffff:ffff:ffff"))
    told, _ = given(plan(vm("a", DesiredNic(network="six", ip="pool")), networks=(network,)), estate())
    assert told == {"a": ["fd00::11/64"]}


# ------------------------------------------------------------------ findings


def test_a_pool_that_is_too_small_says_how_much() -> None:
    there = estate(seen("x", "", "10.111.0.13/24", mark=None))
    told, (found,) = given(plan(vm("a"), vm("b"), vm("c")), there)
    assert told == {"a": ["10.111.0.11/24"], "b": [], "c": []}
    assert (found.code, found.subject.name) == (SHORT, "roce-111")
    assert found.message == (
        "the pool 10.111.0.11-10.111.0.13 on roce-111 is 2 addresses short for b, c: 2 of 3 in use"
    )
    assert "10.111.0.12 (a DNS server of roce-111), 10.111.0.13 (x)" in found.remedy


@pytest.mark.parametrize(
    ("nics", "there", "code"),
    [
        ([DesiredNic(network="vm-network", ip="pool")], (), None),
        ([DesiredNic(network="nowhere", ip="pool")], (), None),
        ([DesiredNic(network="roce-111", ip="10.111.0.1/24")], (), "VG641"),
        ([DesiredNic(network="roce-111", ip="10.111.0.50/24"), ROCE], (), None),
        ([DesiredNic(network="roce-111", ip="10.111.0.50/24")] * 2, (), "VG641"),
        (
            [DesiredNic(network="roce-111", ip="10.111.0.50/24")],
            (seen("x", "", "10.111.0.50/24", mark=None),),
            "VG642",
        ),
        (
            [DesiredNic(network="roce-111", ip="10.111.0.50/24")],
            (seen("a", "", "10.111.0.50/24"),),
            None,
        ),
        (
            [ROCE],
            (seen("a", "nic1=10.111.0.11/24"), seen("x", "", "10.111.0.11/24", mark=None)),
            "VG642",
        ),
    ],
)
def test_what_stands_against_an_address(
    nics: list[DesiredNic], there: tuple[Vm, ...], code: str | None
) -> None:
    _, found = given(plan(vm("a", *nics, guest=False)), estate(*there))
    assert [one.code for one in found] == ([code] if code else [])


def test_two_vms_that_keep_one_address_do_not_both_keep_it() -> None:
    there = estate(seen("a", "nic2=10.111.0.13/24"), seen("b", "nic2=10.111.0.13/24"))
    assert given(plan(vm("a"), vm("b")), there)[0] == {"a": ["10.111.0.13/24"], "b": ["10.111.0.11/24"]}


# ---------------------------------------------------------- what it is known by


def host(*nics: tuple[str, str], vendor: int = 0x15B3) -> Host:
    def function(pci_id: str) -> PciDevice:
        return PciDevice(pci_id=pci_id, vendor_id=vendor, device_id=0x101D, class_id=0x0200)

    return Host(
        moid="host-1",
        name="esx-01",
        pci_devices=tuple(function(pci_id) for pci_id, _ in nics),
        nics=tuple(
            HostNic(device=f"vmnic{i}", pci_id=one, mac=mac) for i, (one, mac) in enumerate(nics) if mac
        ),
    )


def identified(
    desired: DesiredPlan, observed: Inventory, *functions: str
) -> tuple[list[tuple[str, str]], tuple[NicAddress, ...], list[str]]:
    findings = Findings.for_plan(desired)
    where = Placement(vm="a", host_moid="host-1", host_name="esx-01", nic_pci_ids=functions)
    nics = AddressBook(desired, observed, findings=findings).nics_of_all([where])["a"]
    return [(nic.mac, nic.driver) for nic in nics], nics, [one.code for one in findings.diagnostics()]


def test_a_nic_that_is_alone_of_its_driver_is_known_by_that_before_and_after() -> None:
    new = identified(plan(vm("a")), estate(hosts=(host((FIRST, "b8:59:9f:00:00:01")),)), FIRST)
    nic = VirtualNic(key=4000, kind="vmxnet3", network="network-1", mac="00:50:56:80:00:01")
    there = estate(seen("a", "nic2=10.111.0.11/24", nics=(nic,)), hosts=(host((FIRST, "")),))
    assert new[:2] == identified(plan(vm("a")), there, FIRST)[:2]
    assert new[0] == [("", VMXNET3), ("", MLX5)]
    assert new[2] == []


def test_what_the_plan_file_says_comes_first() -> None:
    nic = DesiredNic(network="vm-network", mac="00:50:56:00:00:07")
    assert identified(plan(vm("a", nic)), estate())[0] == [("00:50:56:00:00:07", VMXNET3)]


def test_several_that_are_passed_through_are_known_by_the_macs_that_the_host_told() -> None:
    two = plan(vm("a", ROCE, ROCE.model_copy(update={"ip": "dhcp"})))
    before = estate(hosts=(host((FIRST, "B8:59:9F:00:00:01"), (SECOND, "b8:59:9f:00:00:02")),))
    known, nics, found = identified(two, before, SECOND, FIRST)
    assert known == [("b8:59:9f:00:00:02", MLX5), ("b8:59:9f:00:00:01", MLX5)]
    assert not found
    kept = AddressBook(two, before).record_of(two.vms[0], nics)
    assert kept == "nic1=10.111.0.11/24@b8:59:9f:00:00:02 nic2=@b8:59:9f:00:00:01"
    after = estate(seen("a", kept), hosts=(host((FIRST, ""), (SECOND, "")),))
    assert identified(two, after, SECOND, FIRST)[:2] == (known, nics)


def test_several_whose_macs_nobody_tells_cannot_be_told_apart() -> None:
    two = plan(vm("a", MANAGEMENT, ROCE, ROCE))
    there = estate(hosts=(host((FIRST, ""), (SECOND, "")),))
    assert identified(two, there, FIRST, SECOND)[0] == [("", VMXNET3), ("", ""), ("", "")]
    assert identified(two, there, FIRST, SECOND)[2] == ["VG643"]
    without = plan(vm("a", ROCE, ROCE, guest=False))
    assert identified(without, there, FIRST, SECOND)[2] == []


def test_the_mac_of_what_a_label_brings_is_not_known() -> None:
    labelled = DesiredNic(network="roce-111", function=DesiredFunction(kind="passthrough", label="rail"))
    there = estate(hosts=(host((FIRST, "b8:59:9f:00:00:01"), (SECOND, "b8:59:9f:00:00:02")),))
    assert identified(plan(vm("a", labelled, labelled)), there, FIRST, SECOND)[2] == ["VG643"]


def test_a_function_of_another_vendor_is_known_by_its_mac() -> None:
    nic = DesiredNic(network="roce-111", function=DesiredFunction(kind="passthrough", pin=FIRST))
    there = estate(hosts=(host((FIRST, "40:a6:b7:00:00:01"), vendor=0x8086),))
    assert identified(plan(vm("a", nic)), there, FIRST)[0] == [("40:a6:b7:00:00:01", "")]


def test_several_virtual_nics_get_fixed_macs_that_nobody_has() -> None:
    pvrdma = DesiredNic(network="lan-2", is_pvrdma=True, rdma="host")
    two = plan(vm("a", MANAGEMENT, pvrdma), vm("b", MANAGEMENT, pvrdma))
    macs = dict(AddressBook(two, estate()).default_macs)
    assert len(set(macs.values())) == len(macs) == 4
    assert all("00:50:56:00:00:00" <= mac <= "00:50:56:3f:ff:ff" for mac in macs.values())
    assert macs == dict(AddressBook(two, estate()).default_macs), "the same again"
    taken = VirtualNic(key=4000, kind="vmxnet3", mac=macs["a", 1].upper())
    others = estate(seen("x", nics=(taken,), mark=None))
    assert AddressBook(two, others).default_macs["a", 1] != macs["a", 1]
    assert identified(two, estate())[0] == [(macs["a", 0], VMXNET3), (macs["a", 1], VMXNET3)]


def test_a_vm_that_exists_keeps_the_macs_that_it_has() -> None:
    pvrdma = DesiredNic(network="lan-2", is_pvrdma=True, rdma="host")
    own = (
        VirtualNic(key=4000, kind="pvrdma", network="network-2", mac="00:50:56:80:00:02"),
        VirtualNic(key=4001, kind="vmxnet3", network="network-1", mac="00:50:56:80:00:01"),
    )
    known = identified(plan(vm("a", MANAGEMENT, pvrdma)), estate(seen("a", nics=own)))[0]
    assert known == [("00:50:56:80:00:01", VMXNET3), ("00:50:56:80:00:02", VMXNET3)]


def test_what_else_a_guest_is_told_of_a_nic() -> None:
    nics = identified(plan(vm("a", MANAGEMENT, ROCE, DesiredNic(network=None, rdma="host"))), estate())[1]
    assert [nic.mtu for nic in nics] == [None, 9000, 9000], (
        "an RDMA NIC has jumbo frames unless told otherwise"
    )
    assert [(nic.gateway, nic.dns) for nic in nics[:2]] == [("", ()), ("10.111.0.1", ("10.111.0.12",))]
    assert [nic.is_stated for nic in nics] == [True, True, False]
    assert [nic.type for nic in nics] == ["vmxnet3", "passthrough", "vmxnet3"]
