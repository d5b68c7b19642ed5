"""Some forty plans as `plan -v` prints them, chosen so that together they show every kind of change.

The texts stand in `whole/`; `REWRITE_PLANS=1 pytest tests/plans/test_whole.py` writes them anew, for you to
read before you commit them. A case gets one where an empty file of its name is put there.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import get_args

import pytest

from tests.plans.planned import plan_of
from vgpu_cfg.changes.change import Change
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

WHOLE = Path(__file__).parent / "whole"
CASES = sorted(path.stem for path in WHOLE.glob("*.txt"))
WIDE = 100
IS_REWRITING = os.environ.get("REWRITE_PLANS") == "1"


@pytest.mark.parametrize("case", CASES)
def test_a_whole_plan_reads_like_this(case: str) -> None:
    found = plain(render_plan(plan_of(case), WIDE, PlanShown(with_all=True)))
    expected = WHOLE / f"{case}.txt"
    if IS_REWRITING:
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


def test_every_kind_of_change_is_in_one_of_them() -> None:
    union, _ = get_args(Change)
    shown = {change.kind for case in CASES for change in plan_of(case).changes}
    of_other_commands = {"mark_vm", "set_cordon"}
    assert sorted(shown | of_other_commands) == sorted(
        kind.model_fields["kind"].default for kind in get_args(union)
    )
