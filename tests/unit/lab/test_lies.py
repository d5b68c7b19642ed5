"""Beliefs that an estate makes false: the table of them, and a few as clients see them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vgpu_cfg.errors import DocumentError
from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.estates.lies import LIES

LAB = Path(__file__).resolve().parents[3] / "vgpu_cfg" / "lab"


def test_each_lie_is_a_belief_and_is_told_somewhere() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in LAB.rglob("*.py") if path.name != "lies.py")
    assert set(LIES) <= set(load_beliefs())
    assert [lie for lie in LIES if f'"{lie}"' not in code] == []
    assert set(re.findall(r'denies\("([^"]+)"\)', code)) <= set(LIES)


def test_an_unknown_lie_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    estate = tmp_path / "e.yaml"
    estate.write_text("about: a\nclusters: []\nlies: [recent-task]\n", encoding="utf-8")
    with pytest.raises(DocumentError) as raised:
        open_lab(estate)
    [fault] = raised.value.faults
    told = fault.message + fault.hint
    assert (fault.line, fault.column) == (3, 8)
    assert "did you mean 'recent-tasks'?" in told
    assert all(lie in told for lie in LIES)
