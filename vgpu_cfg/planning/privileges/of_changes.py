"""Which needs the changes of a plan come to, and on which objects."""

from __future__ import annotations

from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.vms.settings.table import rows_of


def needs_of_changes(plan: Plan, observed: Inventory) -> tuple[Needed, ...]:
    """Return what the plan's changes need, each need once per object.

    What is done to a VM that is yet to be made is asked of the folder it will be in, what is done to a switch
    that is yet to be made of its datacenter.
    """
    made = (found for change in plan.changes if (found := change.home()) is not None)
    places = Places(observed, {(kind, name): moid for kind, name, moid in made}, rows_of)
    return tuple(dict.fromkeys(needed for change in plan.changes for needed in change.privileges(places)))
