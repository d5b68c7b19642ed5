"""Which NICs of a host are taken for RDMA, which never are, and what is set with them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import plan_for, vm
from tests.unit.planning.hosts.plans import GPU, NIC, SHELL, estate, host, resolved
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredHosts, DesiredVm
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.plan_file import PvrdmaEntry, RoceEntry
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.hosts.derive import Preparation, derived_entry
from vgpu_cfg.planning.hosts.needed import needed_facts

FIRST, OTHER = "0000:24:00.0", "0000:e4:00.0"
FAR = {"vmnic": "vmnic3", "pci": OTHER, "node": 1}
BOTH = ["vmnic2", "vmnic3"]
OUT = NIC | {"vmnic": "", "pci": "0000:24:00.1", "passthrough": True}
ATS = {"ATS_ENABLED": "True"}
DVS = {"name": "dvs-roce", "uplinks": ["vmnic2"], "switch_uuid": "50 0f"}
ESTATE = {
    "networks": {"roce-111": {"kind": "distributed"}, "roce-vmk": {"kind": "distributed"}},
    "switches": {"dvs-roce": {"uuid": "50 0f", "mtu": 9000, "vlans": {"roce-111": 1, "roce-vmk": 1}}},
}


def asking(name: str, kind: str = "passthrough", rdma: str = "gpudirect", **more: Any) -> DesiredVm:
    nic: dict[str, Any] = {"network": "roce-111", "rdma": rdma}
    if kind == "pvrdma":
        nic["is_pvrdma"] = True
    else:
        nic["function"] = {"kind": kind, "near_gpu": True} | more
    return vm(name, "grid_a100-40c", nics=(nic,), stated=("nics",))


def derived(
    *vms: DesiredVm, row: dict[str, Any] | None = None, training: Any = None, **entry: Any
) -> DesiredHosts:
    observed = estate(row or host(), **ESTATE)
    one = resolved(observed, **({"access": SHELL} | entry))
    desired = plan_for(*vms, hosts=[{"cluster": "gpu"}], training=training)
    return derived_entry(one, desired, observed, load_catalog(), Findings(), preparation=Preparation.RDMA)


def told(entry: DesiredHosts) -> list[tuple[str | None, str | None, dict[str, str]]]:
    return [(rule.match.vmnic or rule.match.pci_id, rule.use, dict(rule.firmware)) for rule in entry.nics]


def test_a_nic_for_gpudirect_is_handed_out_with_ats_in_its_firmware() -> None:
    entry = derived(asking("a"))
    assert entry.ats is True
    assert told(entry) == [("vmnic2", "passthrough", ATS)]
    assert entry.nics[0].roce is None, "the guest's matter"


def test_rdma_of_the_guests_memory_needs_no_ats() -> None:
    entry = derived(asking("a", rdma="host"))
    assert entry.ats is None
    assert told(entry) == [("vmnic2", "passthrough", {})]


def test_nothing_is_asked_for_vms_without_rdma_nor_for_those_that_are_there() -> None:
    plain = vm("a", nics=({"network": "x", "function": {"kind": "passthrough"}},))
    assert derived(plain).nics == ()
    observed = estate(host(), vms={"a": {"mark": True}})
    one = resolved(observed, access=SHELL)
    desired = plan_for(asking("a"), hosts=[{"cluster": "gpu"}])
    asked = derived_entry(one, desired, observed, load_catalog(), Findings(), None, Preparation.RDMA)
    assert asked is one.entry


@pytest.mark.parametrize(
    ("row", "vms", "expected"),
    [
        ({"nics": [FAR, NIC]}, 1, ["vmnic2"]),
        (
            {"nics": [FAR, NIC], "gpus": [GPU, GPU | {"pci": "0000:e2:00.0", "node": 1}]},
            2,
            ["vmnic2", "vmnic3"],
        ),
        (
            {"nics": [NIC, NIC | {"vmnic": "vmnic4", "pci": "0000:24:00.1", "passthrough": True}]},
            1,
            ["0000:24:00.1"],
        ),
        ({"nics": [NIC], "facts": {"switches": [DVS]}}, 1, []),
        ({"nics": [NIC | {"functions": 4}]}, 1, []),
        ({"nics": [NIC | {"device_id": 0x1572}]}, 1, []),
    ],
    ids=[
        "near an idle GPU first",
        "one on each GPU's node",
        "one that is out already",
        "an uplink is never taken",
        "nor one that has virtual functions",
        "nor one without RDMA",
    ],
)
def test_which_nics_are_taken(row: dict[str, Any], vms: int, expected: list[str]) -> None:
    entry = derived(*(asking(f"w-{number}") for number in range(vms)), row=host(**row))
    assert sorted(one or "" for one, _, _ in told(entry)) == expected


def test_a_vm_may_name_a_nic_that_the_host_uses() -> None:
    row = host(facts={"switches": [DVS]})
    assert told(derived(asking("a", pin=FIRST), row=row)) == [("vmnic2", "passthrough", ATS)]


def test_what_is_passed_through_already_has_its_firmware_in_the_guest() -> None:
    row = host(nics=[{"pci": FIRST, "node": 0, "passthrough": True}])
    assert told(derived(asking("a"), row=row)) == [(FIRST, "passthrough", {})]


@pytest.mark.parametrize(
    ("facts", "access", "firmware"),
    [
        ({}, SHELL, ATS),
        ({}, {"ssh": "off"}, ATS),
        ({"shell": False}, SHELL, ATS),
        ({"shell": False}, {"ssh": "off"}, {}),
        ({"shell_unread": {FIRST: "mlxconfig is not on this host"}}, SHELL, {}),
    ],
    ids=["told", "told although off", "closed, and may be opened", "never asked", "without the tools"],
)
def test_firmware_is_set_on_the_host_where_its_shell_can(
    facts: dict[str, Any], access: dict[str, str], firmware: dict[str, str]
) -> None:
    assert told(derived(asking("a"), row=host(facts=facts), access=access)) == [
        ("vmnic2", "passthrough", firmware)
    ]


def test_the_plan_files_own_words_come_first() -> None:
    stated = {
        "match": {"model": "ConnectX"},
        "use": "passthrough",
        "label": "roce",
        "firmware": {"ATS_ENABLED": "False"},
    }
    entry = derived(asking("a"), ats=False, nics=(stated,))
    assert entry.ats is False
    assert told(entry)[0] == ("vmnic2", "passthrough", {"ATS_ENABLED": "False"})
    assert entry.nics[0].label == "roce"
    kept = derived(asking("a"), nics=({"match": {"vmnic": "vmnic2"}, "use": "host"},))
    assert [rule.use for rule in kept.nics] == ["host"]


def test_functions_are_cut_for_all_that_need_one_and_marked_on_the_host() -> None:
    training = {"workers": ["a"], "roce": {"dscp": 30, "priority": 4}}
    entry = derived(
        asking("a", "sriov"), asking("b", "sriov"), row=host(nics=[NIC | {"functions": 1}]), training=training
    )
    assert told(entry) == [("vmnic2", "sriov", ATS)]
    assert entry.nics[0].vfs == 2
    assert entry.nics[0].roce == RoceEntry(trust="dscp", dscp=30, priority=4)


def test_functions_that_are_there_are_not_taken_away() -> None:
    entry = derived(asking("a", "sriov"), row=host(nics=[NIC | {"functions": 8}], facts={"switches": [DVS]}))
    assert entry.nics[0].vfs == 8


def test_a_nic_that_offers_none_gets_them_by_its_firmware() -> None:
    entry = derived(asking("a", "sriov", rdma="host"), row=host(nics=[NIC | {"most": 0}]))
    assert told(entry) == [("vmnic2", "sriov", {"SRIOV_EN": "True", "NUM_OF_VFS": "1"})]


def vmk(mtu: int = 9000) -> dict[str, Any]:
    found = {"device": "vmk2", "network": "roce-vmk", "network_moid": "network-roce-vmk", "mtu": mtu}
    return {"switches": [DVS], "vmknics": [found]}


def test_pvrdma_takes_the_vmkernel_nic_on_its_switch() -> None:
    entry = derived(asking("a", "pvrdma", "host"), row=host(facts=vmk()))
    assert entry.pvrdma == PvrdmaEntry(vmknic="vmk2")
    assert (entry.vmknics, entry.ats) == ((), None)
    assert [(rule.match.vmnic, rule.use) for rule in entry.nics] == [("vmnic2", None)]
    assert entry.nics[0].roce is not None


def test_pvrdma_gives_its_vmkernel_nic_jumbo_frames() -> None:
    entry = derived(asking("a", "pvrdma", "host"), row=host(facts=vmk(1500)))
    assert [(one.network, one.mtu, one.address) for one in entry.vmknics] == [("roce-vmk", 9000, None)]


def test_pvrdma_takes_the_vmkernel_nic_that_the_plan_file_makes() -> None:
    entry = derived(
        asking("a", "pvrdma", "host"),
        row=host(facts={"switches": [DVS]}),
        vmknics=({"network": "roce-vmk", "address": "10.0.0.1/24"}, {"network": "vm-network"}),
    )
    assert entry.pvrdma == PvrdmaEntry(network="roce-vmk")
    assert [one.mtu for one in entry.vmknics] == [9000, None]


def test_pvrdma_without_a_vmkernel_nic_is_left_to_a_finding() -> None:
    assert derived(asking("a", "pvrdma", "host"), row=host(facts={"switches": [DVS]})).pvrdma is None


@pytest.mark.parametrize(
    ("kind", "rdma", "ssh", "groups"),
    [
        ("passthrough", "gpudirect", "open-and-close", {"kernel", "options", "shell-nics"}),
        ("passthrough", "gpudirect", "off", {"kernel", "options"}),
        ("passthrough", "host", "off", set()),
        ("pvrdma", "host", "off", {"options", "modules"}),
    ],
)
def test_what_is_read_to_tell_the_chain_of_vms_that_exist(
    kind: str, rdma: str, ssh: str, groups: set[str]
) -> None:
    desired = plan_for(asking("a", kind, rdma), hosts=[{"cluster": "gpu", "access": {"ssh": ssh}}])
    found = needed_facts(desired, estate(host(), **ESTATE), load_catalog())["host-esx-01"]
    assert found - {FactGroup.BASE, FactGroup.OWNERS, FactGroup.SOFTWARE} == groups
