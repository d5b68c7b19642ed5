"""Who lives on a switch or portgroup: named before its MTU is lowered or its VLAN is changed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import plan_for
from tests.unit.planning.desired_plans import vm as desired_vm
from tests.unit.planning.test_networks import ROCE, codes, estate, planned, portgroup, switch
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.networks.compare import plan_networks

LOWER = ROCE | {"mtu": 1500}
OTHER_VLAN = ROCE | {"vlan": 112}
NAMES_IT = {"cluster": "gpu", "vmknics": [{"network": "roce-111", "address": "dhcp"}]}


def inhabited(
    *vmknics: dict[str, Any], vms: Any = (), members: Any = ("host-1",), unread: Any = None
) -> Inventory:
    """Observe the switch and portgroup of `ROCE` with VMkernel NICs on its one host, and VMs there."""
    row = estate(switch(members={moid: ["vmnic0"] for moid in members})).model_dump(mode="json")
    row["hosts"][0]["network_moids"] = ["dvportgroup-1"]
    row["facts"]["hosts"]["host-1"] |= {"vmknics": vmknics, "unread": unread or {}}
    if unread == "all":
        row["facts"]["hosts"] = {}
    row["networks"] = [portgroup(portgroup_key="dvportgroup-1")]
    row["vms"] = vms
    return Inventory.model_validate(row)


def vmknic(mtu: int = 9000, network: str = "dvportgroup-1", *services: str) -> dict[str, Any]:
    return {"device": "vmk2", "network_moid": network, "mtu": mtu, "services": services}


def vm(name: str = "db", network: str | None = "dvportgroup-1", **more: Any) -> dict[str, Any]:
    """Observe a VM; without a network nothing of its devices was read."""
    nic = {"key": 4000, "kind": "vmxnet3", "network": network}
    detail = None if network is None else {"nics": [nic]}
    return {"moid": f"vm-{name}", "name": name, "host_moid": "host-1", "detail": detail} | more


# -------------------------------------------------------------- lower MTU


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (vmknic(), "vmk2 of esx-01 (9000)"),
        (vmknic(1501), "vmk2 of esx-01 (1501)"),
        (vmknic(9000, "dvportgroup-1", "vsan", "vmotion"), "vmk2 of esx-01 (9000, vsan, vmotion)"),
    ],
)
def test_no_mtu_is_lowered_under_a_vmkernel_nic_that_has_more(found: dict[str, Any], told: str) -> None:
    changes, diagnostics = planned(inhabited(found), LOWER)
    assert (changes, codes(diagnostics)) == ([], ["VG535"])
    assert diagnostics[0].message.endswith(f"NICs on it use a larger one: {told}")
    assert diagnostics[0].severity == "error"


@pytest.mark.parametrize("found", [vmknic(1500), vmknic(9000, "dvportgroup-9"), vmknic(9000, "")])
def test_an_mtu_is_lowered_where_no_vmkernel_nic_has_more(found: dict[str, Any]) -> None:
    changes, diagnostics = planned(inhabited(found), LOWER)
    assert ([one.id for one in changes], diagnostics) == (["switch dvs-roce"], ())


def test_a_higher_mtu_disturbs_nobody() -> None:
    changes, diagnostics = planned(inhabited(vmknic()), ROCE | {"mtu": 9100})
    assert ([one.id for one in changes], diagnostics) == (["switch dvs-roce"], ())


@pytest.mark.parametrize(
    ("members", "unread", "found"),
    [
        (("host-1",), "all", ["VG535"]),
        (("host-1",), {"base": "it does not answer"}, ["VG535"]),
        ((), "all", []),
        (("host-1",), None, []),
    ],
)
def test_of_a_member_that_was_not_read_a_warning_tells(members: Any, unread: Any, found: list[str]) -> None:
    changes, diagnostics = planned(inhabited(members=members, unread=unread), LOWER)
    assert [one.id for one in changes] == ["switch dvs-roce"]
    assert codes(diagnostics) == found
    assert {one.severity for one in diagnostics} <= {"warning"}


# ------------------------------------------------------------------- VLAN


@pytest.mark.parametrize(
    ("vmknics", "vms", "hosts", "told"),
    [
        ([vmknic(1500, "dvportgroup-1", "vmotion")], [], [], "vmk2 of esx-01 (vmotion)"),
        ([vmknic(1500, "dvportgroup-1", "vsan")], [], [NAMES_IT], "vmk2 of esx-01 (vsan)"),
        ([vmknic()], [], [], "vmk2 of esx-01"),
        ([], [vm()], [], "db"),
        ([], [vm(power_state="poweredOff")], [], "db"),
        ([], [vm(mark={"plan": "demo", "vm": "db"})], [], "db"),
        ([vmknic()], [vm()], [], "vmk2 of esx-01, db"),
    ],
)
def test_no_vlan_is_changed_under_what_is_not_the_plans(
    vmknics: Any, vms: Any, hosts: Any, told: str
) -> None:
    changes, diagnostics = planned(inhabited(*vmknics, vms=vms), OTHER_VLAN, hosts=hosts)
    assert (changes, codes(diagnostics)) == ([], ["VG514"])
    assert diagnostics[0].message == f"changing to VLAN 112 would disconnect objects on roce-111: {told}"


@pytest.mark.parametrize(
    ("vmknics", "vms", "hosts"),
    [
        ([], [], []),
        ([vmknic()], [], [NAMES_IT]),
        ([vmknic(9000, "dvportgroup-9", "vsan")], [vm(network="dvportgroup-9")], []),
        ([], [vm(is_template=True)], []),
    ],
)
def test_a_vlan_is_changed_where_only_the_plans_own_is_on_it(vmknics: Any, vms: Any, hosts: Any) -> None:
    changes, diagnostics = planned(inhabited(*vmknics, vms=vms), OTHER_VLAN, hosts=hosts)
    assert ([one.id for one in changes], diagnostics) == (["network roce-111"], ())


@pytest.mark.parametrize(
    ("plan", "name", "found"), [("demo", "db", []), ("other", "db", ["VG514"]), ("demo", "web", ["VG514"])]
)
def test_the_plans_own_vm_follows_its_network(plan: str, name: str, found: list[str]) -> None:
    observed = inhabited(vms=[vm(name, mark={"plan": plan, "vm": name})])
    desired = plan_for(desired_vm("db"), networks=[OTHER_VLAN])
    findings = Findings()
    changes = plan_networks(desired, observed, findings)
    assert len(changes) == (0 if found else 1)
    assert codes(findings.diagnostics()) == found


def test_a_vlan_that_is_right_disturbs_nobody() -> None:
    assert planned(inhabited(vmknic(9000, "dvportgroup-1", "vsan"), vms=[vm()]), ROCE) == ([], ())


@pytest.mark.parametrize(
    ("vms", "unread", "told"),
    [
        ([vm(network=None)], None, "db"),
        ([], "all", "esx-01"),
        ([vm(network=None, host_moid=None)], None, "db"),
    ],
)
def test_of_what_was_not_read_a_warning_tells(vms: Any, unread: Any, told: str) -> None:
    changes, diagnostics = planned(inhabited(vms=vms, unread=unread), OTHER_VLAN)
    assert [one.id for one in changes] == ["network roce-111"]
    assert [(one.code, one.severity) for one in diagnostics] == [("VG514", "warning")]
    assert diagnostics[0].message.endswith(f"could not be read on {told}")
