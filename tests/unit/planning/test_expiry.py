"""VMs with a date: warned of twice, shut down by a run that is started for it, and not started again."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest

from tests.plans.estate import READ_AT
from tests.unit.planning.desired_plans import GPU, codes, estate, own, plan_for, planned, vm
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.sync import is_in_sync
from vgpu_cfg.planning.vms.expiry import make_expiry_plan
from vgpu_cfg.render.views.status import view_status

TODAY = READ_AT.date()
PROFILE = "grid_a100-20c"


def wanted(name: str = "a", *, days: int, **more: Any) -> DesiredPlan:
    return plan_for(vm(name, PROFILE, expires=TODAY + timedelta(days=days), **more))


def runs(**more: Any) -> dict[str, Any]:
    return own(PROFILE, on=[GPU], **more)


@pytest.mark.parametrize(
    ("days", "found", "says"),
    [
        (8, [], ""),
        (7, ["VG263"], "the VM expires in 7 days"),
        (2, ["VG263"], "the VM expires in 2 days"),
        (1, ["VG264"], "the VM expires tomorrow"),
        (0, ["VG264"], "the VM expires today"),
        (-1, ["VG010"], "the VM expired on 2026-11-19"),
    ],
)
def test_a_vm_is_warned_of_twice(days: int, found: list[str], says: str) -> None:
    plan = planned(wanted(days=days), estate({"a": runs()}))
    assert codes(plan) == found
    assert all(says in one.message and one.severity is Severity.WARNING for one in plan.diagnostics)
    assert plan.changes == ()


def test_an_expired_vm_that_is_off_stays_off_and_another_is_started() -> None:
    observed = estate({"a": own(PROFILE, power="poweredOff")})
    expired, lasting = planned(wanted(days=-1), observed), planned(wanted(days=8), observed)
    assert (expired.changes, [str(one.severity) for one in expired.diagnostics]) == ((), ["info"])
    assert [change.kind for change in lasting.changes] == ["power_on_vm"]
    assert expired.desired == wanted(days=-1)


def test_an_expired_vm_that_is_not_there_is_not_made() -> None:
    expired, lasting = planned(wanted(days=-1), estate()), planned(wanted(days=8), estate())
    assert (expired.changes, expired.placements, codes(expired)) == ((), (), ["VG010"])
    assert "it is not created" in expired.diagnostics[0].message
    assert is_in_sync(expired)
    assert lasting.changes[0].kind == "create_vm"
    row = view_status(expired, estate()).vms[0]
    assert (row.state, row.drift) == ("expired", ())


def test_an_expired_vm_takes_no_room_from_others() -> None:
    past = vm("a", "grid_a100-40c", expires=TODAY - timedelta(days=1))
    plan = planned(plan_for(past, vm("b", "grid_a100-40c")), estate())
    assert ([one.vm for one in plan.placements], codes(plan)) == (["b"], ["VG010"])


@pytest.mark.parametrize(
    ("desired", "vms", "off"),
    [
        (wanted(days=-1), {"a": runs()}, ["power off a"]),
        (wanted(days=0), {"a": runs()}, []),
        (plan_for(vm("a", PROFILE)), {"a": runs()}, []),
        (wanted(days=-1), {"a": own(PROFILE, power="poweredOff")}, []),
        (wanted(days=-1), {}, []),
        (wanted(days=-1), {"a": runs() | {"mark": False}}, []),
        (wanted(days=-1, power="leave"), {"a": runs()}, ["power off a"]),
        (wanted(days=-1, cpus=64), {"a": runs()}, ["power off a"]),
    ],
)
def test_what_is_past_its_date_and_runs_is_shut_down_and_no_more(
    desired: DesiredPlan, vms: dict[str, Any], off: list[str]
) -> None:
    plan = make_expiry_plan(desired, estate(vms))
    assert [change.id for change in plan.changes] == off
    assert plan.diagnostics == ()


def test_only_chooses_and_what_is_protected_is_refused() -> None:
    observed = estate({"a": runs()})
    assert make_expiry_plan(wanted(days=-1), observed, PlanOptions(only=("b",))).changes == ()
    desired = vm("a", PROFILE, expires=TODAY - timedelta(days=1))
    assert codes(make_expiry_plan(plan_for(desired, protect={"names": ("a",)}), observed)) == ["VG004"]


def test_a_day_is_over_at_midnight_utc() -> None:
    assert date(2026, 11, 20) == TODAY
    late = estate({"a": runs()}).model_copy(update={"read_at": READ_AT.replace(hour=23, minute=59)})
    next_day = late.model_copy(update={"read_at": READ_AT + timedelta(hours=3)})
    assert make_expiry_plan(wanted(days=0), late).changes == ()
    assert len(make_expiry_plan(wanted(days=0), next_day).changes) == 1
