"""What is equal before and after is no change: not in a plan's data, and not in what is shown of it."""

from __future__ import annotations

import re

import pytest

from tests.plans.planned import plan_of
from tests.plans.tables import CASES
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.layout.edits import edit_text
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

WIDE = 400
TWICE = re.compile(r"(?:^|\s)(\S+) -> \1\*?(?=$|  | \()")


@pytest.mark.parametrize("case", CASES)
def test_no_edit_leaves_a_value_as_it_was(case: str) -> None:
    plan = plan_of(case)
    edits = [edit for change in plan.changes for edit in change.edits]
    assert [edit for edit in edits if edit.before == edit.after] == []
    words = [edit_text(edit).removeprefix(f"{edit.key} ").partition(" -> ") for edit in edits]
    assert [before for before, _, after in words if before == after] == []
    shown = plain(render_plan(plan, WIDE, PlanShown(with_all=True)))
    assert [line for line in shown.splitlines() if TWICE.search(line)] == []


def test_what_is_said_twice_is_seen() -> None:
    assert TWICE.search("2  graphics type  shared -> shared  no rule speaks of the GPU")
    assert TWICE.search("cpus 4 -> 4*")
    assert not TWICE.search("apart  hvd-01 -> hvd-01, hvd-02")
