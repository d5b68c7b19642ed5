from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.plans.tables import case_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.suggestions import PlanSource, suggest

CASE = case_of("other-goes-to-its-like")
"""A VM in need of a whole GPU, and the VMs `other` and `small`, which each hold a part of one."""


def touched(tmp_path: Path, protect: dict[str, Any], **other: Any) -> set[str]:
    """Return which of the two VMs a fix would move or power off."""
    vms = CASE.estate["vms"]
    observed = make_inventory(
        {**CASE.estate, "folders": ["attic"], "vms": {**vms, "other": {**vms["other"], **other}}}
    )
    path = tmp_path / "plan.yaml"
    path.write_text(json.dumps({**CASE.plan, "protect": protect}), encoding="utf-8")
    fixes = suggest(PlanSource(path, load_catalog(), PlanOptions(), lambda _: observed)).fixes
    assert fixes
    words = [f"{part.says} {part.command} {part.then}" for fix in fixes for part in fix.parts]
    return {name for name in ("other", "small") if any(name in text for text in words)}


@pytest.mark.parametrize(
    ("protect", "other", "free"),
    [
        ({}, {}, {"other"}),
        ({"names": ["other"]}, {}, {"small"}),
        ({"folders": ["attic"]}, {"folder": "attic"}, {"small"}),
        ({"folders": ["attic"]}, {}, {"other"}),
    ],
)
def test_no_fix_touches_a_protected_vm(
    tmp_path: Path, protect: dict[str, Any], other: dict[str, Any], free: set[str]
) -> None:
    assert touched(tmp_path, protect, **other) == free
