"""What a plan's changes need, by object: without what they can do without."""

from __future__ import annotations

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.privileges import needs_of_changes


def needed_privileges(plan: Plan, observed: Inventory) -> dict[str, tuple[str, ...]]:
    """Return the privileges per moid, sorted."""
    found: dict[str, set[str]] = {}
    for one in needs_of_changes(plan, observed):
        if not one.need.is_optional:
            found.setdefault(one.moid, set()).update(one.need.privileges)
    return {moid: tuple(sorted(privileges)) for moid, privileges in found.items()}
