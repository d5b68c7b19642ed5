"""The changes of a site as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.site_changes import SiteChange
from vgpu_cfg.render.data.format import FORMAT


def site_changes_data(changes: Sequence[SiteChange], before: Inventory, after: Inventory) -> dict[str, Any]:
    """Return what came, went and changed, and of when the two readings are."""
    return {
        "kind": "site-changes",
        "format": FORMAT,
        "server": after.vcenter.address,
        "before": before.read_at.isoformat(),
        "after": after.read_at.isoformat(),
        "changes": [
            {
                "kind": change.kind,
                "name": change.name,
                "fate": change.fate.value,
                "edits": [
                    {"key": edit.key, "before": edit.before, "after": edit.after} for edit in change.edits
                ],
            }
            for change in changes
        ],
    }
