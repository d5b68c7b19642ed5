"""Whole plans, and every finding of every case, read well on narrow and wide terminals."""

from __future__ import annotations

import pytest

from tests.plans.planned import plan_of
from tests.plans.tables import CASES as ALL_CASES
from tests.plans.test_whole import CASES
from tests.widths import WIDTHS, faults
from vgpu_cfg.render.text.findings import render_findings
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_a_whole_plan_keeps_to_the_width(case: str, width: int) -> None:
    plan = plan_of(case)
    for with_all in (False, True):
        shown = PlanShown("vgpu-cfg apply plan.yaml", with_all=with_all)
        assert faults(lambda width: render_plan(plan, width, shown), width) == []  # noqa: B023


@pytest.mark.parametrize("width", WIDTHS)
def test_every_finding_keeps_to_the_width(width: int) -> None:
    found = {one for case in ALL_CASES for one in plan_of(case).diagnostics}
    for one in found:
        assert faults(lambda width: render_findings([one], width, with_all=True), width) == []  # noqa: B023
