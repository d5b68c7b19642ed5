"""Whether all is as the plan file says: `plan` and `status` agree in every case, and their texts say it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.plans.by_table import by_table
from tests.plans.planned import desired_of, inventory_of, options_of, plan_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.vm import AFFINITY_KEY
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.sync import is_in_sync, waits_for
from vgpu_cfg.render.data.documents import plan_data, status_data
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.text.plan.whole import render_plan
from vgpu_cfg.render.text.status import node_text, render_status
from vgpu_cfg.render.views.status import view_status

WIDE = 400


@pytest.mark.sampled(4)
@by_table()
def test_plan_and_status_agree_whether_all_is_in_sync(case: str) -> None:
    observed, options = inventory_of(case), options_of(case)
    if options.only:
        return  # status looks at all
    plan = (
        plan_of(case)
        if not options.delete
        else make_plan(desired_of(case), observed, load_catalog(), replace(options, delete=()))
    )
    asked = replace(options, delete=(), allow_power_cycle=True)
    view = view_status(make_plan(desired_of(case), observed, load_catalog(), asked), observed)
    verdict = is_in_sync(plan)
    assert (view.is_in_sync, status_data(view)["is_in_sync"]) == (verdict, verdict)
    assert plan_data(plan)["is_in_sync"] is verdict
    waits = bool(waits_for(plan))
    assert (": in sync, " in plain(render_plan(plan, WIDE)).splitlines()[0]) is (verdict and not waits)
    words = plain(render_status(view, WIDE)).splitlines()[0].rpartition(", ")[2]
    others = ("in sync except for", "in sync; ", "reserved")
    assert verdict is (words == "in sync") or (verdict and words.startswith(others))
    if verdict:
        assert all(row.is_in_sync for row in view.hosts)
        assert all(row.is_in_sync for row in view.vms)
        assert not view.differences
    reported = {one.subject.name for one in plan.diagnostics if one.code == Code.NUMA_ELSEWHERE}
    reported |= {one.subject.name for one in view.differences if one.what == AFFINITY_KEY}
    off = {row.name for row in view.vms if node_text(row).style == "yellow"}
    stated = {vm.name for vm in plan.desired.vms if vm.numa.policy is not NumaPolicy.FOLLOW_GPU}
    assert off - stated <= reported
    told = {(one.subject.kind, one.subject.name) for one in view.differences}
    assert {("vm", row.name) for row in view.vms if not row.is_in_sync} <= told
    assert {("host", row.name) for row in view.hosts if row.drift} <= told


def test_the_cases_show_both() -> None:
    cases = ("in-sync", "host-in-sync", "orphan-stays", "rule-follows-the-line", "host-check-differs")
    assert [is_in_sync(plan_of(case)) for case in cases] == [True, True, False, False, False]
