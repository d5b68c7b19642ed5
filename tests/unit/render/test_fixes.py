"""How it reads that no fix is known."""

from __future__ import annotations

import pytest

from vgpu_cfg.changes.suggestion import Suggestion
from vgpu_cfg.render.text.plan.findings import render_fixes


@pytest.mark.parametrize(("tried", "says"), [(1, "1 plan tried"), (8, "8 plans tried")])
def test_no_fix_is_known_of_one_plan_or_of_several(tried: int, says: str) -> None:
    lines = [line.plain for line in render_fixes(Suggestion(tried=tried), 100, command="")]
    assert lines == ["", f"FIX   No automatic fix found ({says})"]
