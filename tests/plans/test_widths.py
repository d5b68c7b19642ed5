"""Whole plans, and every finding of every case, read well on narrow and wide terminals."""

from __future__ import annotations

import pytest

from tests.plans.planned import plan_of
from tests.plans.tables import CASES as ALL_CASES
from tests.plans.test_fixes import source_of
from tests.plans.test_whole import CASES
from tests.widths import WIDTHS, Render, faults
from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.suggestion import Suggestion
from vgpu_cfg.render.layout.most import ALL
from vgpu_cfg.render.text.plan.findings import render_findings, render_fixes
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan
from vgpu_cfg.suggestions import suggest


def a_plan(plan: Plan, *, with_all: bool) -> Render:
    shown = PlanShown("vgpu-cfg apply plan.yaml", with_all=with_all)
    return lambda width: render_plan(plan, width, shown)


def fixes(found: Suggestion) -> Render:
    command = "vgpu-cfg plan plan.yaml --suggest=plan-fixed.yaml"
    return lambda width: render_fixes(found, width, command=command)


def a_finding(found: Diagnostic) -> Render:
    return lambda width: render_findings([found], width, most=ALL)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_a_whole_plan_keeps_to_the_width(case: str, width: int) -> None:
    for with_all in (False, True):
        assert faults(a_plan(plan_of(case), with_all=with_all), width) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_every_finding_keeps_to_the_width(width: int) -> None:
    for found in {one for case in ALL_CASES for one in plan_of(case).diagnostics}:
        assert faults(a_finding(found), width) == []


@pytest.mark.parametrize(
    "case",
    ["names-that-do-not-exist", "host-lockdown", "nic-of-the-host-itself", "host-from-vms-sharing-unclear"],
)
def test_fixes_keep_to_the_width(case: str) -> None:
    found = suggest(source_of(case))
    assert found.fixes
    for width in WIDTHS:
        assert faults(fixes(found), width) == []
