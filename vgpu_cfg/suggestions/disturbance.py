"""What the plan of a fix disturbs: the rows of DISRUPTION, and what runs on hosts with steps by hand."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.vms.lookup.moving import running_vms
from vgpu_cfg.render.views.plan.disruption import disruption_rows
from vgpu_cfg.suggestions.acts import is_added


def disturbed(plan: Plan, observed: Inventory) -> Iterator[str]:
    """Yield who is disturbed and how, hosts first; nothing of hosts that are still to be bought."""
    changes = tuple(one for one in plan.changes if not is_added(one.subject.moid or ""))
    reached = tuple(one for one in plan.disturbed if not is_added(one.subject.moid or ""))
    shown = plan.model_copy(update={"changes": changes, "disturbed": reached})
    yield from (f"{who}: {how}" for who, how in disruption_rows(shown))
    by_hand = {change.host_moid or change.subject.moid for change in of_kind(changes, ManualStep)}
    own = {vm.name for vm in plan.desired.vms}
    for host in observed.hosts:
        others = [vm.name for vm in running_vms(host, observed) if vm.name not in own]
        if host.moid in by_hand:
            there = f"; others there: {fold_names(others)}" if others else ""
            yield f"{host.name}: steps by hand{there}"
