"""MTUs from end to end, addresses that are written live, fixed MACs, hardware for PVRDMA."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import plan_for, planned, vm
from tests.unit.planning.hosts.plans import NIC, estate, host
from vgpu_cfg.changes.change import Change, CreateVm, ReconfigureVm
from vgpu_cfg.changes.kinds.vm_spec import EditNic, NewPvrdmaNic, NewSriovNic
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import network_mtu
from vgpu_cfg.model.guests.base import ADDRESSES_KEY

DVS = {"name": "dvs-roce", "uplinks": ["vmnic2"], "switch_uuid": "50 0f"}
VMK = {"device": "vmk2", "network": "roce-vmk", "network_moid": "network-roce-vmk", "mtu": 9000}
NETWORKS = {"roce-111": {"kind": "distributed"}, "roce-vmk": {"kind": "distributed"}}
POOL = {"name": "vm-network", "subnet": "10.1.0.0/24", "pool": ("10.1.0.11", "10.1.0.20")}
PVRDMA = {"network": "roce-111", "is_pvrdma": True, "rdma": "host"}
OWN_CARD = {"network": "dvportgroup-roce-111", "kind": "pvrdma", "mac": "00:50:56:80:00:09"}
VIRTUAL = {"network": "roce-111", "function": {"kind": "sriov"}, "rdma": "host"}


def observed(mtu: int = 9000, vms: dict[str, Any] | None = None, **more: Any) -> Any:
    switches = {"dvs-roce": {"uuid": "50 0f", "mtu": mtu, "vlans": {"roce-111": 1, "roce-vmk": 1}}}
    facts = {"switches": [DVS], "vmknics": [VMK], "options": {"Net.PVRDMAVmknic": "vmk2"}}
    row = host(nics=[NIC | {"functions": 4}], facts=facts)
    return estate(row, networks=NETWORKS, switches=switches, vms=vms or {}, **more)


def desired(*nics: dict[str, Any], networks: tuple[dict[str, Any], ...] = (), **more: Any) -> Any:
    asked = vm("a", nics=nics, stated=("nics",), **more)
    return plan_for(asked, networks=networks)


def codes(found: Plan) -> list[str]:
    return [one.code for one in found.errors]


# ------------------------------------------------------------------- MTU


@pytest.mark.parametrize(
    ("nic", "line", "mtu", "found"),
    [
        (VIRTUAL, None, 9000, []),
        (VIRTUAL, None, 1500, ["VG535"]),
        (PVRDMA, None, 1500, ["VG535"]),
        (VIRTUAL, {"name": "roce-111", "mtu": 1500}, 1500, []),
        (VIRTUAL, {"name": "roce-111", "mtu": 4200}, 1500, ["VG535"]),
        (VIRTUAL | {"rdma": None}, None, 1500, []),
        (VIRTUAL | {"function": {"kind": "passthrough"}}, None, 1500, []),
    ],
)
def test_a_switch_must_carry_what_its_rdma_nics_send(
    nic: dict[str, Any], line: dict[str, Any] | None, mtu: int, found: list[str]
) -> None:
    plan = planned(desired(nic, networks=(line,) if line else ()), observed(mtu))
    assert [code for code in codes(plan) if code == "VG535"] == found


@pytest.mark.parametrize(
    ("stated", "rdma", "expected"), [(None, "host", 9000), (None, None, None), (1500, "host", 1500)]
)
def test_a_network_that_carries_rdma_has_jumbo_frames(
    stated: int | None, rdma: str | None, expected: int | None
) -> None:
    plan = desired(VIRTUAL | {"rdma": rdma}, networks=({"name": "roce-111", "mtu": stated},))
    assert network_mtu(plan, plan.networks[0]) == expected


@pytest.mark.parametrize(("mtu", "edits"), [(1500, [("1500", "9000", True)]), (9000, []), (9216, [])])
def test_the_plans_own_switch_gets_them_and_keeps_more(mtu: int, edits: list[tuple[str, str, bool]]) -> None:
    plan = desired(VIRTUAL, networks=({"name": "roce-111", "switch": "dvs-roce"},))
    changes = [one for one in planned(plan, observed(mtu)).changes if one.kind == "change_network"]
    told = [(edit.before, edit.after, edit.is_default) for one in changes for edit in one.edits]
    assert told == edits


# --------------------------------------------------------------- addresses


def existing(**more: Any) -> dict[str, Any]:
    return {"a": {"mark": True, "nics": ["vm-network"]} | more}


def reconfigured(plan: Plan) -> list[Change]:
    return [one for one in plan.changes if one.kind in ("reconfigure_vm", "power_off_vm", "power_on_vm")]


def test_an_address_is_kept_on_a_vm_that_runs_without_a_power_cycle() -> None:
    plan = planned(
        desired({"network": "vm-network", "ip": "pool"}, networks=(POOL,)), observed(vms=existing())
    )
    (change,) = reconfigured(plan)
    assert isinstance(change, ReconfigureVm)
    assert change.impact is Impact.NONE
    assert dict(change.spec.extra_config) == {ADDRESSES_KEY: "nic1=10.1.0.11/24"}
    assert not plan.errors


def test_beside_what_needs_one_it_is_written_with_it() -> None:
    asked = desired({"network": "vm-network", "ip": "pool"}, networks=(POOL,), cpus=8)
    plan = planned(asked, observed(vms=existing()), allow_power_cycle=True)
    assert [one.kind for one in reconfigured(plan)] == ["power_off_vm", "reconfigure_vm", "power_on_vm"]


def test_a_suspended_vm_is_not_written_to() -> None:
    asked = desired({"network": "vm-network", "ip": "pool"}, networks=(POOL,))
    assert "VG013" in codes(planned(asked, observed(vms=existing(power="suspended"))))


@pytest.mark.parametrize(("ip", "after"), [("pool", None), ("dhcp", "")])
def test_one_that_is_kept_is_not_written_again_and_goes_with_the_pool(ip: str, after: str | None) -> None:
    kept = existing(extra_config={ADDRESSES_KEY: "nic1=10.1.0.15/24"})
    plan = planned(desired({"network": "vm-network", "ip": ip}, networks=(POOL,)), observed(vms=kept))
    told = [
        one.spec.extra_config[ADDRESSES_KEY] for one in reconfigured(plan) if isinstance(one, ReconfigureVm)
    ]
    assert told == ([] if after is None else [after])


# -------------------------------------------------------------------- MACs


def devices(plan: Plan) -> list[Any]:
    return [edit for one in plan.changes if one.kind == "create_vm" for edit in one.spec.devices]


def test_several_virtual_nics_of_a_new_vm_get_fixed_macs_also_the_templates_own() -> None:
    edited, made = sorted(
        devices(planned(desired({"network": "vm-network"}, PVRDMA), observed())), key=lambda one: one.kind
    )
    assert isinstance(edited, EditNic)
    assert isinstance(made, NewPvrdmaNic)
    assert edited.mac != made.mac
    assert all("00:50:56:00" <= (one.mac or "") <= "00:50:56:3f:ff:ff" for one in (edited, made))


def test_a_single_one_keeps_what_vcenter_gives_it() -> None:
    (made,) = [one for one in devices(planned(desired(VIRTUAL), observed())) if one.kind == "new_sriov_nic"]
    assert isinstance(made, NewSriovNic)
    assert made.mac is None
    made_two = devices(planned(desired(VIRTUAL, VIRTUAL), observed()))
    two = [one for one in made_two if one.kind == "new_sriov_nic"]
    assert len({one.mac for one in two} - {None}) == 2


def test_a_vm_that_exists_keeps_its_macs() -> None:
    has = existing(nics=["vm-network", OWN_CARD])
    assert not planned(desired({"network": "vm-network"}, PVRDMA), observed(vms=has)).changes


# ------------------------------------------------------------------ PVRDMA


@pytest.mark.parametrize(("hardware", "upgrades"), [(13, False), (11, True)])
def test_hardware_that_does_not_know_pvrdma_is_raised_first(hardware: int, upgrades: bool) -> None:
    there = observed(templates={"ubuntu": {"hardware": hardware}})
    plan = planned(desired(PVRDMA), there)
    kinds = [one.kind for one in plan.changes if one.kind != "power_on_vm"]
    assert kinds == (["create_vm", "upgrade_vm", "reconfigure_vm"] if upgrades else ["create_vm"])
    with_card = plan.changes[2 if upgrades else 0]
    assert isinstance(with_card, CreateVm | ReconfigureVm)
    assert any(isinstance(edit, NewPvrdmaNic) for edit in with_card.spec.devices)


def test_pvrdma_pins_all_memory() -> None:
    (create,) = (one for one in planned(desired(PVRDMA), observed()).changes if one.kind == "create_vm")
    assert "memory_reservation" in create.spec.settings
    has = existing(nics=[OWN_CARD], reserved=False)
    (change, *_) = (
        one
        for one in planned(desired(PVRDMA), observed(vms=has), allow_power_cycle=True).changes
        if one.kind == "reconfigure_vm"
    )
    assert "memory_reservation" in change.spec.settings


def test_a_vm_loses_the_pvrdma_nic_that_is_not_asked_for() -> None:
    has = existing(nics=["vm-network", OWN_CARD])
    plan = planned(desired({"network": "vm-network"}), observed(vms=has), allow_power_cycle=True)
    (change,) = (one for one in plan.changes if one.kind == "reconfigure_vm")
    assert [edit.kind for edit in change.spec.devices] == ["remove_device"]
