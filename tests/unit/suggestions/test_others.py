"""Other VMs in the way of a plan: which of them fixes touch, and what a fix says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.plans.tables import case_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.suggestion import Fix
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.suggestions import PlanSource, suggest

CASE = case_of("other-goes-to-its-like")
"""A VM in need of a whole GPU, and the VMs `other` and `small`, which each hold a part of one."""
FAR = {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 1}]}
NEAR = {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 0}]}


def fixes_of(
    tmp_path: Path, protect: dict[str, Any], target: dict[str, Any], **other: Any
) -> tuple[Fix, ...]:
    """Return the fixes if the VM `other`, or the host that it could go to, is different."""
    vms, hosts = CASE.estate["vms"], {**CASE.estate["hosts"]}
    hosts["esx-02"] = {**hosts["esx-02"], **target}
    changed = {"hosts": hosts, "folders": ["attic"], "vms": {**vms, "other": {**vms["other"], **other}}}
    observed = make_inventory({**CASE.estate, **changed})
    path = tmp_path / "plan.yaml"
    path.write_text(json.dumps({**CASE.plan, "protect": protect}), encoding="utf-8")
    return suggest(PlanSource(path, load_catalog(), PlanOptions(), lambda _: observed)).fixes


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
    fixes = fixes_of(tmp_path, protect, {}, **other)
    assert fixes
    words = [f"{part.says} {part.command} {part.then}" for fix in fixes for part in fix.parts]
    assert {name for name in ("other", "small") if any(name in text for text in words)} == free


PINNED = {"extra_config": {"numa.nodeAffinity": "0"}}
COLD = "it must be powered off for the move: vCenter does not report whether its vGPUs can be migrated"


@pytest.mark.parametrize(
    ("target", "other", "said"),
    [
        (NEAR, {}, ["other runs on esx-02"]),
        (NEAR, PINNED, ["other runs on esx-02"]),
        (
            FAR,
            PINNED,
            ["other runs on esx-02; numa.nodeAffinity pins it to a NUMA node other than its new GPU's"],
        ),
        (FAR, {}, ["other runs on esx-02"]),
        ({}, {"migrates": None}, [f"other runs on esx-02; {COLD}"]),
    ],
)
def test_a_fix_says_what_becomes_of_a_vm_that_it_moves(
    tmp_path: Path, target: dict[str, Any], other: dict[str, Any], said: list[str]
) -> None:
    fixes = fixes_of(tmp_path, CASE.plan["protect"], target, **other)
    assert [[one.says for one in fix.others] for fix in fixes] == [said]
