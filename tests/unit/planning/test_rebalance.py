from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning import desires
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.inventory import Inventory, ProfileInfo
from vgpu_cfg.model.vm import Vm
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.rebalance import How, Outcome, Rebalance, plan_rebalance

A, B = "0000:21:00.0", "0000:e2:00.0"


def estate(hosts: int, vms: dict[str, Any], *, migrates: bool | None = True, stun: int = 0) -> Inventory:
    """Observe hosts of one A100 each, whose VMs vMotion may move."""
    rows = {f"esx-{number:02}": {"gpus": [{"board": "A100", "pci": A}]} for number in range(1, hosts + 1)}
    observed = make_inventory({"hosts": rows, "vms": vms})
    moved = tuple(_with_migrates(vm, migrates) for vm in observed.vms)
    told = ProfileInfo(name="grid_a100-10c", stun_ms={1000: stun, 10_000: stun // 10})
    known = [
        host.model_copy(
            update={
                "profiles": (*(one for one in host.profiles or () if one.name != told.name), told)
                if stun
                else host.profiles
            }
        )
        for host in observed.hosts
    ]
    return observed.model_copy(update={"vms": moved, "hosts": tuple(known)})


def _with_migrates(vm: Vm, migrates: bool | None) -> Vm:
    if vm.detail is None:
        return vm
    vgpus = tuple(one.model_copy(update={"migrates": migrates}) for one in vm.detail.vgpus)
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"vgpus": vgpus})})


def small(host: str, profile: str = "grid_a100-10c", **more: Any) -> dict[str, Any]:
    return {"host": host, "gpus": [profile], "on": [A], "memory_gib": 16} | more


def rebalance(observed: Inventory, count: int = 1, **more: Any) -> Rebalance:
    vms = [desires.vm(f"whole-{number}", "grid_a100-40c") for number in range(count)]
    return plan_rebalance(desires.plan_for(*vms, **more), observed, load_catalog(), PlanOptions())


TWO = {"a": small("esx-01"), "b": small("esx-02")}


def test_what_fits_needs_no_move() -> None:
    assert rebalance(estate(2, {"a": small("esx-01")})) == Rebalance(Outcome.FITS)


def test_one_move_by_vmotion_frees_a_gpu() -> None:
    found = rebalance(estate(2, TWO, stun=900))
    (move,) = found.moves
    assert (found.outcome, found.homeless) == (Outcome.MOVES, ("whole-0",))
    assert (move.vm, move.source, move.target) == ("a", "esx-01", "esx-02")
    assert (move.how, move.why_cold, move.stun_ms) == (How.VMOTION, "", 900)


def test_without_an_estimate_there_is_no_stun() -> None:
    (move,) = rebalance(estate(2, TWO)).moves
    assert (move.how, move.stun_ms) == (How.VMOTION, None)


@pytest.mark.parametrize(
    ("migrates", "why"),
    [
        (None, "vCenter does not tell whether its vGPUs can move"),
        (False, "vCenter says that its vGPUs cannot move"),
    ],
)
def test_a_vm_that_vmotion_cannot_move_is_moved_cold(migrates: bool | None, why: str) -> None:
    (move,) = rebalance(estate(2, TWO, migrates=migrates, stun=900)).moves
    assert (move.how, move.why_cold, move.stun_ms) == (How.COLD, why, None)


def test_unified_memory_forbids_vmotion_and_another_vm_is_taken() -> None:
    with_uvm = small("esx-01", extra_config={"pciPassthru0.cfg.enable_uvm": "1"})
    (move,) = rebalance(estate(2, {"a": with_uvm, "b": small("esx-02")})).moves
    assert (move.vm, move.how) == ("b", How.VMOTION)
    other = small("esx-02", extra_config={"pciPassthru0.cfg.enable_uvm": "1"})
    (move,) = rebalance(estate(2, {"a": with_uvm, "b": other})).moves
    assert (move.how, move.why_cold) == (How.COLD, "unified memory is on")


def test_two_moves_where_one_is_not_enough() -> None:
    vms = {name: small(f"esx-0{number}") for number, name in enumerate("abc", 1)}
    found = rebalance(estate(3, vms), count=2)
    assert len(found.moves) == 2
    assert {move.target for move in found.moves} == {"esx-03"}
    assert len(rebalance(estate(3, vms)).moves) == 1


def test_no_moves_help_where_there_is_not_enough() -> None:
    found = rebalance(estate(2, TWO), count=2)
    assert (found.outcome, found.moves, found.homeless) == (Outcome.NONE, (), ("whole-0", "whole-1"))


def test_another_size_cannot_join_and_is_no_way_out() -> None:
    vms = {"a": small("esx-01"), "b": small("esx-02", "grid_a100-20c")}
    assert rebalance(estate(2, vms)).outcome is Outcome.NONE


def test_a_vm_moves_only_where_its_network_is() -> None:
    vms = {name: row | {"nics": ["vm-network"]} for name, row in TWO.items()}
    observed = estate(2, vms)
    assert rebalance(observed).outcome is Outcome.MOVES
    without = observed.hosts[1].model_copy(update={"network_moids": frozenset()})
    found = rebalance(observed.model_copy(update={"hosts": (observed.hosts[0], without)}))
    assert [(move.vm, move.target) for move in found.moves] == [("b", "esx-01")]


def test_protected_vms_stay() -> None:
    protected = {"names": ("a", "b")}
    assert rebalance(estate(2, TWO), protect=protected).outcome is Outcome.NONE
