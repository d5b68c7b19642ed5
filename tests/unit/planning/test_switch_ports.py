"""Which ports of the physical switch a plan's RDMA runs over, and with which marks."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import plan_for, vm
from tests.unit.render.samples import plan_of
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.planning.networks.network_users import SwitchNeeds, SwitchPort, switch_needs

PHYSICAL = {"name": "roce-111", "is_physical": True, "vlan": 111, "mtu": 9000}
PORTGROUP = {"name": "roce-pg", "switch": "dvs", "vlan": 112}
WHOLE = {"kind": "passthrough"}
PLACE = Placement(vm="a", host_moid="host-1", host_name="esx-01", nic_pci_ids=("0000:24:00.0",))


def nic(network: str | None = "roce-111", **more: Any) -> dict[str, Any]:
    return {"network": network, "function": WHOLE, "rdma": "gpudirect"} | more


def with_nics(*nics: dict[str, Any], name: str = "a") -> DesiredVm:
    return vm(name, "grid_a100-40c", nics=nics)


def plan(*vms: DesiredVm, networks: Any = (PHYSICAL,), places: Any = (PLACE,), **more: Any) -> Plan:
    desired = plan_for(*vms, networks=networks, **more)
    return plan_of().model_copy(update={"desired": desired, "placements": tuple(places)})


def the_only(made: Plan) -> SwitchNeeds:
    (needs,) = switch_needs(made)
    return needs


def test_a_nic_that_is_passed_through_is_its_port_without_a_tag() -> None:
    needs = the_only(plan(with_nics(nic())))
    assert needs.ports == (SwitchPort("esx-01", "0000:24:00.0", "a", is_tagged=False),)
    assert (needs.network, needs.vlan, needs.mtu, needs.dscp, needs.priority) == (
        "roce-111",
        111,
        9000,
        26,
        3,
    )


def test_functions_are_counted_without_nics_that_have_none() -> None:
    plain = {"network": "vm-network", "ip": "dhcp"}
    assert the_only(plan(with_nics(plain, nic()))).ports[0].pci_id == "0000:24:00.0"


def test_a_port_of_the_hosts_own_switch_carries_the_tag() -> None:
    needs = the_only(plan(with_nics(nic("roce-pg", function={"kind": "sriov"})), networks=[PORTGROUP]))
    assert needs.is_tagged
    assert needs.vlan == 112


def test_a_vm_without_a_place_has_a_port_all_the_same() -> None:
    assert the_only(plan(with_nics(nic()), places=[])).ports == (SwitchPort("", "", "a", is_tagged=False),)


def test_a_network_that_the_plan_does_not_describe_is_told_too() -> None:
    assert the_only(plan(with_nics(nic("other")), networks=[])).vlan is None


@pytest.mark.parametrize(
    "without",
    [{"network": "roce-111", "function": WHOLE}, {"network": "roce-111"}, nic(None)],
    ids=["no RDMA", "vmxnet3", "no network"],
)
def test_other_nics_need_nothing(without: dict[str, Any]) -> None:
    assert switch_needs(plan(with_nics(without))) == ()


def test_ports_stand_by_host_and_networks_in_the_plans_order() -> None:
    other = Placement(vm="b", host_moid="host-0", host_name="esx-00", nic_pci_ids=("0000:24:00.0",))
    vms = (with_nics(nic("roce-pg")), with_nics(nic(), name="b"), with_nics(nic(), name="c"))
    found = switch_needs(plan(*vms, networks=[PHYSICAL, PORTGROUP], places=[PLACE, other]))
    assert [needs.network for needs in found] == ["roce-111", "roce-pg"]
    assert [port.vm for port in found[0].ports] == ["c", "b"]


def test_a_worker_is_one_in_the_network_of_training_with_the_marks_of_that() -> None:
    training = {"workers": ["a"], "rdma_network": "roce-111", "roce": {"dscp": 18, "priority": 2}}
    needs = the_only(plan(with_nics({"network": "roce-111", "function": WHOLE}), training=training))
    assert (needs.dscp, needs.priority) == (18, 2)
