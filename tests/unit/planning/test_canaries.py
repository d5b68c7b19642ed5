"""Who goes first of the hosts and VMs of a plan, what waits for them, and whether they are as planned."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.execution.makers import create, power_off, power_on
from tests.unit.planning.desired_plans import GPU, estate, own, plan_for, planned, vm
from tests.unit.planning.hosts import plans as host_plans
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Canary, Plan, StartQueue
from vgpu_cfg.planning.canaries import plan_canaries, problems_of

SMALL = "grid_a100-10c"
THREE = tuple(vm(name, SMALL) for name in ("a", "b", "c"))


def canary_of(plan: Plan) -> Canary:
    (canary,) = plan.canaries
    return canary


@pytest.mark.parametrize(("count", "names", "others"), [(1, "a", "bc"), (2, "ab", "c")])
def test_the_first_vms_are_made_and_started_before_the_others_are_begun(
    count: int, names: str, others: str
) -> None:
    canary = canary_of(planned(plan_for(*THREE), estate(), canary=count))
    assert (canary.names, canary.others) == (tuple(names), tuple(others))
    assert canary.first == tuple(f"{verb} {name}" for name in names for verb in ("create", "power on"))
    assert canary.held == tuple(f"{verb} {name}" for name in others for verb in ("create", "power on"))


@pytest.mark.parametrize("count", [0, 3, 4])
def test_nobody_goes_first_where_nobody_is_left_to_wait(count: int) -> None:
    assert planned(plan_for(*THREE), estate(), canary=count).canaries == ()


def test_a_vm_that_is_right_is_no_canary() -> None:
    observed = estate({"a": own(SMALL)})
    canary = canary_of(planned(plan_for(*THREE), observed, canary=1))
    assert (canary.names, canary.others) == (("b",), ("c",))


def test_what_the_canary_needs_does_not_wait() -> None:
    """As a rule that names both: it is set before either is started, once both have been made."""
    changes: list[Change] = [
        create("a"),
        create("b"),
        power_on("a", needs=("create a", "create b")),
        power_on("b", needs=("create b",)),
    ]
    (canary,) = plan_canaries(changes, (), (), 1)
    assert canary.first == ("create a", "create b", "power on a")
    assert (canary.others, canary.held) == (("b",), ("power on b",))


def test_whoever_must_start_first_is_a_canary_too() -> None:
    """As a larger vGPU is started before a smaller one, which could take its place."""
    changes: list[Change] = [
        create("a"),
        create("b"),
        power_on("a", needs=("create a", "power on b")),
        power_on("b"),
    ]
    (canary,) = plan_canaries([*changes, create("c")], (), (), 1)
    assert (set(canary.names), canary.others) == ({"a", "b"}, ("c",))


def test_vms_of_one_start_queue_go_first_together() -> None:
    changes: list[Change] = [power_on(name, needs=()) for name in ("a", "b", "c")]
    queue = StartQueue(host_moid="host-1", gpus=(), starts={"a": (), "c": ()})
    (canary,) = plan_canaries(changes, (), (queue,), 1)
    assert (set(canary.names), canary.others) == ({"a", "c"}, ("b",))


def test_a_vm_that_is_only_switched_off_for_its_host_goes_with_the_host() -> None:
    changes: list[Change] = [
        power_off("own", "vm-own"),
        power_on("own", moid="vm-own", needs=("power off own",)),
    ]
    ids = tuple(change.id for change in changes)
    of_host = Canary(names=("esx-01",), others=("esx-02",), first=ids[:1], held=ids[1:])
    found = plan_canaries([*changes, create("a"), create("b")], (of_host,), (), 1)
    assert [canary.names for canary in found] == [("esx-01",), ("a",)]
    assert found[1].held == ("create b",)


# ---------------------------------------------------------------- whether they are as planned


def problems(vms: dict[str, Any], **more: Any) -> tuple[str, ...]:
    plan = planned(plan_for(*THREE), estate(), canary=1)
    after = estate(vms, **more)
    return problems_of(canary_of(plan), plan, after, planned(plan.desired, after))


def test_a_canary_that_runs_as_planned_has_no_problem() -> None:
    assert problems({"a": own(SMALL)}) == ()


@pytest.mark.parametrize(
    ("vms", "told"),
    [
        ({}, "a: no longer in vCenter"),
        ({"a": own(SMALL, on=[], power="poweredOff")}, "a: not running"),
        ({"a": own("grid_a100-20c")}, "would be planned again"),
        ({"a": own(SMALL, host="esx-02")}, "a: runs on esx-02, planned for esx-01"),
    ],
)
def test_a_canary_that_is_not_as_planned_is_told(vms: dict[str, Any], told: str) -> None:
    card = {"gpus": [{"board": "A100", "pci": GPU, "node": 0}]}
    found = problems(vms, hosts={"esx-01": card, "esx-02": card})
    assert any(told in problem for problem in found), found


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({}, []),
        ({"connection": "notResponding"}, ["esx-01: does not respond"]),
        ({"maintenance": True}, ["esx-01: in maintenance mode"]),
    ],
)
def test_a_host_that_is_not_as_planned_is_told(row: dict[str, Any], told: list[str]) -> None:
    before = host_plans.estate(host_plans.host(), host_plans.host())
    plan = host_plans.plan(before, ats=False, disruption={"canary": 1})
    after = host_plans.estate(host_plans.host(**row), host_plans.host())
    left = plan.model_copy(update={"changes": ()})
    assert list(problems_of(canary_of(plan), plan, after, left)) == told


def test_a_setting_that_does_not_show_is_told() -> None:
    before = host_plans.estate(host_plans.host(), host_plans.host())
    plan = host_plans.plan(before, ats=False, disruption={"canary": 1})
    found = problems_of(canary_of(plan), plan, before, plan)
    assert "esx-01: set ats on esx-01 would be planned again" in found
