"""The JSON of `verify --target-branch`, told in docs/reference/json-output.md."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.compatibility import BranchPlan
from vgpu_cfg.render.data.format import FORMAT


def branch_plan_data(found: BranchPlan) -> dict[str, Any]:
    """Return each VM's stack beside the branch; what is unknown says so."""
    return {
        "kind": "target-branch",
        "format": FORMAT,
        **found.model_dump(mode="json"),
        "fits": not found.lacks,
    }
