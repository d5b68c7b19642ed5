"""Distributed switches and portgroups: made where allowed, changed only in what the plan file names."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from vgpu_cfg.changes.change import ChangeNetwork
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.networks.compare import plan_networks

ROCE = {"name": "roce-111", "switch": "dvs-roce", "vlan": 111, "mtu": 9000}
MAKES = ROCE | {"make_switch": True}


def switch(**more: Any) -> dict[str, Any]:
    """Observe a switch that is as `ROCE` asks, its portgroup too."""
    vlans = {"dvportgroup-1": 111}
    return {"moid": "dvs-1", "name": "dvs-roce", "uuid": "u1", "mtu": 9000, "portgroup_vlans": vlans} | more


def estate(
    *switches: dict[str, Any], networks: Any = None, host_switches: Any = (), nics: int = 2
) -> Inventory:
    """Observe one host with some ConnectX-6 Dx, the switches, and a portgroup roce-111 on the first."""
    row = {
        "vcenter": {"address": "vc.example"},
        "read_at": datetime(2026, 11, 20, tzinfo=UTC),
        "datacenters": [{"moid": "datacenter-1", "name": "dc1", "inventory_path": "/dc1"}],
        "clusters": [
            {"moid": "domain-c1", "name": "gpu", "inventory_path": "/dc1/host/gpu", "host_moids": ["host-1"]}
        ],
        "hosts": [
            {
                "moid": "host-1",
                "name": "esx-01",
                "inventory_path": "/dc1/host/gpu/esx-01",
                "cluster_moid": "domain-c1",
                "nics": [_nic(number) for number in range(nics)],
            }
        ],
        "networks": [portgroup()] if networks is None else networks,
        "facts": {"switches": switches, "hosts": {"host-1": {"groups": ["base"], "switches": host_switches}}},
    }
    return Inventory.model_validate(row)


def portgroup(**more: Any) -> dict[str, Any]:
    return {
        "moid": "dvportgroup-1",
        "name": "roce-111",
        "inventory_path": "/dc1/network/roce-111",
        "kind": "distributed",
        "switch_uuid": "u1",
    } | more


def _nic(number: int) -> dict[str, Any]:
    pci = {
        "pci_id": f"0000:{number + 1:02x}:00.0",
        "vendor_id": 0x15B3,
        "device_id": 0x101D,
        "class_id": 0x0200,
    }
    return {"device": f"vmnic{number}", "pci_id": pci["pci_id"], "pci": pci}


def planned(
    observed: Inventory, *networks: dict[str, Any], hosts: Any = ()
) -> tuple[list[ChangeNetwork], tuple[Diagnostic, ...]]:
    desired = DesiredPlan.model_validate(
        {"name": "demo", "vcenter": "vc.example", "networks": networks, "hosts": hosts}
    )
    findings = Findings.for_plan(desired)
    return plan_networks(desired, observed, findings), findings.diagnostics()


def codes(found: tuple[Diagnostic, ...]) -> list[str]:
    return [one.code for one in found]


def member(name: str = "dvs-roce", **match: Any) -> dict[str, Any]:
    return {"cluster": "gpu", "nics": [{"match": match or {"vmnic": "vmnic0"}, "switch": name}]}


# --------------------------------------------------- switch and portgroup


def test_what_is_right_is_left_alone() -> None:
    assert planned(estate(switch()), ROCE) == ([], ())


def test_a_network_without_a_switch_is_only_looked_up() -> None:
    assert planned(estate(), {"name": "roce-111"}) == ([], ())


def test_a_switch_is_made_with_its_portgroup() -> None:
    changes, found = planned(
        estate(networks=[]), MAKES, {"name": "roce-112", "switch": "dvs-roce", "vlan": 112}
    )
    assert [(one.id, one.needs) for one in changes] == [
        ("make switch dvs-roce", ()),
        ("network roce-111", ("make switch dvs-roce",)),
        ("network roce-112", ("make switch dvs-roce",)),
    ]
    assert changes[0].network == MakeSwitch(datacenter_moid="datacenter-1", name="dvs-roce", mtu=9000)
    assert changes[1].network == SetPortgroup(switch_name="dvs-roce", name="roce-111", vlan=111)
    assert found == ()


def test_a_switch_that_may_not_be_made_is_missed_with_advice() -> None:
    changes, found = planned(estate(switch(name="dvs-roce-a")), ROCE)
    assert changes == []
    assert codes(found) == ["VG532"]
    assert "dvs-roce-a" in found[0].remedy


def test_a_portgroup_is_made_on_a_switch_that_is_there() -> None:
    changes, found = planned(estate(switch(portgroup_vlans={}), networks=[]), ROCE)
    (change,) = changes
    assert change.network == SetPortgroup(
        switch_name="dvs-roce", switch_moid="dvs-1", name="roce-111", vlan=111
    )
    assert change.needs == ()
    assert [(edit.after, edit.is_default) for edit in change.edits] == [
        ("roce-111 on dvs-roce", False),
        ("8, static binding, elastic", True),
        ("111", False),
    ]
    assert found == ()


@pytest.mark.parametrize(("now", "before"), [(5, "5"), (None, "trunk"), (0, "0")])
def test_a_vlan_that_differs_is_set(now: int | None, before: str) -> None:
    changes, _ = planned(estate(switch(portgroup_vlans={"dvportgroup-1": now})), ROCE)
    (change,) = changes
    assert change.id == "network roce-111"
    assert isinstance(change.network, SetPortgroup)
    assert (change.network.portgroup_moid, change.network.vlan) == ("dvportgroup-1", 111)
    assert (change.edits[0].before, change.edits[0].after) == (before, "111")


def test_a_vlan_that_the_plan_leaves_out_stays() -> None:
    line = {"name": "roce-111", "switch": "DVS-ROCE"}
    assert planned(estate(switch(mtu=1500, portgroup_vlans={"dvportgroup-1": 5})), line) == ([], ())


def test_a_vlan_that_was_not_read_is_an_error() -> None:
    changes, found = planned(estate(switch(portgroup_vlans={})), ROCE)
    assert (changes, codes(found)) == ([], ["VG509"])


@pytest.mark.parametrize("more", [{"kind": "standard", "switch_uuid": None}, {"switch_uuid": "u2"}])
def test_a_network_of_this_name_elsewhere_is_refused(more: dict[str, Any]) -> None:
    changes, found = planned(estate(switch(), networks=[portgroup(**more)]), ROCE)
    assert (changes, codes(found)) == ([], ["VG405"])


# -------------------------------------------------------------------- MTU


@pytest.mark.parametrize(("now", "wanted"), [(1500, 9000), (9000, 1500), (None, 9000)])
def test_an_mtu_that_differs_is_set_either_way(now: int | None, wanted: int) -> None:
    changes, found = planned(estate(switch(mtu=now)), ROCE | {"mtu": wanted})
    (change,) = changes
    assert change.id == "switch dvs-roce"
    assert change.network == EditSwitch(switch_name="dvs-roce", switch_moid="dvs-1", mtu=wanted)
    assert change.edits[0].before == str(now or 1500)
    assert found == ()


def test_of_several_lines_the_largest_mtu_counts() -> None:
    other = {"name": "small", "switch": "dvs-roce", "mtu": 1500}
    small = portgroup(moid="dvportgroup-2", name="small", inventory_path="/dc1/network/small")
    assert planned(estate(switch(), networks=[portgroup(), small]), ROCE, other) == ([], ())


@pytest.mark.parametrize(
    ("line", "mtu", "is_stated"),
    [
        (ROCE, 9000, False),
        (ROCE, 9100, True),
        ({"name": "roce-111"}, 9000, False),
        ({"name": "roce-111"}, 9100, True),
    ],
)
def test_a_vmkernel_nic_must_fit_the_switch(line: dict[str, Any], mtu: int, is_stated: bool) -> None:
    entry = {"cluster": "gpu", "vmknics": [{"network": "roce-111", "mtu": mtu}]}
    _, found = planned(estate(switch()), line, hosts=[entry])
    assert codes(found) == (["VG535"] if is_stated else [])


# ---------------------------------------------------------------- members


def test_a_host_joins_with_the_nic_of_its_rule() -> None:
    changes, found = planned(estate(switch()), ROCE, hosts=[member()])
    (change,) = changes
    assert change.network == EditSwitch(
        switch_name="dvs-roce", switch_moid="dvs-1", members={"host-1": ("vmnic0",)}
    )
    assert [(edit.key, edit.before, edit.after) for edit in change.edits] == [
        ("uplinks of esx-01", None, "vmnic0")
    ]
    assert found == ()


def test_two_nics_join_in_one_change_and_those_there_stay() -> None:
    observed = estate(switch(members={"host-1": ["vmnic9"]}))
    changes, _ = planned(observed, ROCE, hosts=[member(model="ConnectX-6 Dx")])
    (change,) = changes
    assert isinstance(change.network, EditSwitch)
    assert change.network.members == {"host-1": ("vmnic9", "vmnic0", "vmnic1")}
    assert [(edit.before, edit.after) for edit in change.edits] == [("vmnic9", "vmnic9, vmnic0, vmnic1")]


def test_a_member_is_left_alone() -> None:
    observed = estate(
        switch(members={"host-1": ["vmnic0"]}),
        host_switches=[{"name": "dvs-roce", "uplinks": ["vmnic0"], "switch_uuid": "u1"}],
    )
    assert planned(observed, ROCE, hosts=[member()]) == ([], ())


def test_a_switch_of_rules_alone_is_changed_too() -> None:
    changes, found = planned(estate(switch()), hosts=[member()])
    assert [one.id for one in changes] == ["switch dvs-roce"]
    assert found == ()


def test_members_join_a_new_switch_before_its_portgroup_is_made() -> None:
    changes, _ = planned(estate(networks=[]), MAKES, hosts=[member()])
    assert [(one.id, one.needs) for one in changes] == [
        ("make switch dvs-roce", ()),
        ("switch dvs-roce", ("make switch dvs-roce",)),
        ("network roce-111", ("switch dvs-roce",)),
    ]
    assert changes[1].network == EditSwitch(switch_name="dvs-roce", members={"host-1": ("vmnic0",)})


def test_a_nic_that_another_switch_uses_is_refused() -> None:
    observed = estate(switch(), host_switches=[{"name": "vSwitch0", "uplinks": ["vmnic0"]}])
    changes, found = planned(observed, ROCE, hosts=[member()])
    assert (changes, codes(found)) == ([], ["VG516"])
    assert "vSwitch0" in found[0].message


def test_a_standard_switch_is_the_hosts_own() -> None:
    observed = estate(host_switches=[{"name": "vSwitch1"}])
    assert planned(observed, hosts=[member("vSwitch1")]) == ([], ())


def test_a_switch_that_nobody_has_is_missed() -> None:
    changes, found = planned(estate(switch()), ROCE, hosts=[member("dvs-rice")])
    assert (changes, codes(found)) == ([], ["VG532"])
    assert "dvs-roce" in found[0].remedy


def test_a_host_that_is_only_checked_is_told_of() -> None:
    changes, found = planned(estate(switch()), ROCE, hosts=[member() | {"mode": "check"}])
    assert (changes, codes(found)) == ([], ["VG508"])
