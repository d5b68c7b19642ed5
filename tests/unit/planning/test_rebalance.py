from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning import desired_plans as desires
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Inventory, ProfileInfo
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.moves.movables import MoveStep, in_order
from vgpu_cfg.planning.moves.rebalance import MoveMethod, Rebalance, RebalanceResult, plan_rebalance

A, B = "0000:21:00.0", "0000:e2:00.0"


def estate(
    hosts: int, vms: dict[str, Any], *, migrates: bool | None = True, stun: int = 0, **more: Any
) -> Inventory:
    """Observe hosts of one A100 each, whose VMs vMotion may move."""
    rows = {f"esx-{number:02}": {"gpus": [{"board": "A100", "pci": A}]} for number in range(1, hosts + 1)}
    observed = make_inventory({"hosts": rows, "vms": vms} | more)
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
    return that_move(observed.model_copy(update={"hosts": tuple(known)}), migrates)


def that_move(observed: Inventory, migrates: bool | None = True) -> Inventory:
    """Let vCenter say of all vGPUs whether they can move."""
    return observed.model_copy(update={"vms": tuple(_with_migrates(vm, migrates) for vm in observed.vms)})


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
    assert rebalance(estate(2, {"a": small("esx-01")})) == Rebalance(RebalanceResult.FITS)


def test_one_move_by_vmotion_frees_a_gpu() -> None:
    found = rebalance(estate(2, TWO, stun=900))
    (move,) = found.moves
    assert (found.outcome, found.unplaced) == (RebalanceResult.MOVES, ("whole-0",))
    assert (move.vm, move.source, move.target) == ("a", "esx-01", "esx-02")
    assert (move.how, move.why_cold, move.stun_ms) == (MoveMethod.VMOTION, "", 900)


def test_without_an_estimate_there_is_no_stun() -> None:
    (move,) = rebalance(estate(2, TWO)).moves
    assert (move.how, move.stun_ms) == (MoveMethod.VMOTION, None)


@pytest.mark.parametrize(
    ("migrates", "why"),
    [
        (None, "vCenter does not report whether its vGPUs can be migrated"),
        (False, "vCenter reports that its vGPUs cannot be migrated"),
    ],
)
def test_a_vm_that_vmotion_cannot_move_is_moved_cold(migrates: bool | None, why: str) -> None:
    (move,) = rebalance(estate(2, TWO, migrates=migrates, stun=900)).moves
    assert (move.how, move.why_cold, move.stun_ms) == (MoveMethod.COLD, why, None)


def test_unified_memory_forbids_vmotion_and_another_vm_is_taken() -> None:
    with_uvm = small("esx-01", extra_config={"pciPassthru0.cfg.enable_uvm": "1"})
    (move,) = rebalance(estate(2, {"a": with_uvm, "b": small("esx-02")})).moves
    assert (move.vm, move.how) == ("b", MoveMethod.VMOTION)
    other = small("esx-02", extra_config={"pciPassthru0.cfg.enable_uvm": "1"})
    (move,) = rebalance(estate(2, {"a": with_uvm, "b": other})).moves
    assert (move.how, move.why_cold) == (MoveMethod.COLD, "unified memory is on")


def test_two_moves_where_one_is_not_enough() -> None:
    vms = {name: small(f"esx-0{number}") for number, name in enumerate("abc", 1)}
    found = rebalance(estate(3, vms), count=2)
    assert len(found.moves) == 2
    assert {move.target for move in found.moves} == {"esx-03"}
    assert len(rebalance(estate(3, vms)).moves) == 1


def test_no_moves_help_where_there_is_not_enough() -> None:
    found = rebalance(estate(2, TWO), count=2)
    assert (found.outcome, found.moves, found.unplaced) == (RebalanceResult.NONE, (), ("whole-0", "whole-1"))


def test_another_size_cannot_join_and_is_no_way_out() -> None:
    vms = {"a": small("esx-01"), "b": small("esx-02", "grid_a100-20c")}
    assert rebalance(estate(2, vms)).outcome is RebalanceResult.NONE


def test_a_vm_moves_only_where_its_network_is() -> None:
    vms = {name: row | {"nics": ["vm-network"]} for name, row in TWO.items()}
    observed = estate(2, vms)
    assert rebalance(observed).outcome is RebalanceResult.MOVES
    without = observed.hosts[1].model_copy(update={"network_moids": frozenset()})
    found = rebalance(observed.model_copy(update={"hosts": (observed.hosts[0], without)}))
    assert [(move.vm, move.target) for move in found.moves] == [("b", "esx-01")]


def test_protected_vms_stay() -> None:
    protected = {"names": ("a", "b")}
    assert rebalance(estate(2, TWO), protect=protected).outcome is RebalanceResult.NONE


def test_protected_folders_stay() -> None:
    vms = {name: row | {"folder": "others"} for name, row in TWO.items()}
    observed = estate(2, vms, folders=["others", "more"])
    found = rebalance(observed, protect={"folders": ("*/others",)})
    assert (found.outcome, found.moves) == (RebalanceResult.NONE, ())
    assert "the folder /dc1/vm/others is protected" in stays(found)["a"]
    assert rebalance(observed, protect={"folders": ("*/more",)}).moves


def test_nothing_is_moved_in_a_protected_cluster() -> None:
    found = rebalance(estate(2, TWO), protect={"clusters": ("gpu",)})
    assert (found.moves, [error.code for error in found.errors]) == ((), ["VG004"])


def stays(found: Rebalance) -> dict[str, str]:
    return {one.vm: one.why for one in found.stays}


def test_a_device_named_by_its_address_binds_a_vm_to_its_host() -> None:
    bound = {"passthrough": [{"pci": B}]}
    vms = {name: row | bound for name, row in TWO.items()}
    found = rebalance(estate(2, vms))
    assert (found.outcome, set(stays(found))) == (RebalanceResult.NONE, {"a", "b"})
    assert "ties it to the host" in stays(found)["a"]
    vms["b"] = TWO["b"]
    assert [move.vm for move in rebalance(estate(2, vms)).moves] == ["b"]


NIC = "0000:e4:00.0"


@pytest.mark.parametrize(("function", "moves"), [(None, True), (NIC, False)])
def test_a_virtual_function_goes_along_cold_unless_it_is_named(function: str | None, *, moves: bool) -> None:
    nic = {"network": "vm-network", "kind": "sriov", "function": function}
    vms = {name: row | {"nics": [nic]} for name, row in TWO.items()}
    found = rebalance(estate(2, vms))
    assert all(move.how is MoveMethod.COLD for move in found.moves)
    if not moves:
        assert found.outcome is RebalanceResult.NONE
        assert "virtual function" in stays(found)["a"]


def test_mandatory_rules_between_vms_are_kept() -> None:
    def ruled(**rule: Any) -> Rebalance:
        rules = [{"name": "apart", "vms": ["a", "b"]} | rule]
        return rebalance(estate(2, TWO, clusters={"gpu": {"rules": rules}}))

    assert ruled().outcome is RebalanceResult.NONE
    assert ruled(must=False).outcome is RebalanceResult.MOVES
    assert ruled(enabled=False).outcome is RebalanceResult.MOVES
    assert ruled(kind="affinity").outcome is RebalanceResult.MOVES


def test_mandatory_rules_between_vms_and_hosts_are_kept() -> None:
    def ruled(**rule: Any) -> list[tuple[str, str]]:
        rules = [{"name": "here", "group": "first", "hosts": "first"} | rule]
        groups = {"vm_groups": {"first": ["a"]}, "host_groups": {"first": ["esx-01"]}}
        found = rebalance(estate(2, TWO, clusters={"gpu": {"rules": rules, **groups}}))
        return [(move.vm, move.target) for move in found.moves]

    assert ruled() == [("b", "esx-01")]
    assert ruled(must=False) == [("a", "esx-02")]
    assert ruled(hosts="", not_hosts="first") == [("a", "esx-02")]


@pytest.mark.parametrize("parameter", ["uvm", "debugging", "profiling"])
def test_plugin_parameters_forbid_vmotion(parameter: str) -> None:
    rows = {
        name: row | {"extra_config": {f"pciPassthru0.cfg.enable_{parameter}": "1"}}
        for name, row in TWO.items()
    }
    (move,) = rebalance(estate(2, rows)).moves
    assert (move.how, move.why_cold.endswith(" is on")) == (MoveMethod.COLD, True)


def test_moves_that_change_places_need_one_vm_to_be_off() -> None:
    steps = in_order([MoveStep("a", 0, 1, (), ""), MoveStep("b", 1, 0, (), "")])
    assert [(step.vm, bool(step.why_cold)) for step in steps] == [("b", False), ("a", True)]
    chain = in_order([MoveStep("a", 0, 1, (), ""), MoveStep("b", 1, 2, (), "")])
    assert [(step.vm, step.why_cold) for step in chain] == [("b", ""), ("a", "")]


@pytest.mark.parametrize("free", [True, False])
def test_a_device_of_a_kind_goes_along_cold_where_the_other_host_has_one_free(*, free: bool) -> None:
    whole = {"board": "A100", "passthrough": True, "label": "whole"}
    rows = {
        "esx-01": {"gpus": [{"board": "A100", "pci": A}, whole | {"pci": B}]},
        "esx-02": {"gpus": [{"board": "A100", "pci": A}, whole | {"pci": B}] if free else []},
    }
    kind = {"label": "whole", "allowed": [[0x10DE, 0x20F1]], "assigned": B}
    vms = {"a": {"host": "esx-01", "passthrough": [kind], "memory_gib": 16}}
    asked = {"device": {"label": "whole"}}
    vm = desires.vm("wants", gpus=(asked,), place={"hosts": ("esx-01",)})
    found = plan_rebalance(
        desires.plan_for(vm), make_inventory({"hosts": rows, "vms": vms}), load_catalog(), PlanOptions()
    )
    assert [(move.vm, move.how, move.why_cold) for move in found.moves] == (
        [("a", MoveMethod.COLD, "it has a passthrough device")] if free else []
    )
