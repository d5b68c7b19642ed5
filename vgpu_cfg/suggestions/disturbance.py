"""What a plan disturbs, in a few words for each host and for the VMs that go off.

Of steps by hand the plan does not say whom they disturb: what runs on their host is named.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import Plan, PowerOffVm
from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.render.views.plan.whole import HostEffort, host_efforts
from vgpu_cfg.suggestions.acts import is_added


def disturbed(plan: Plan, observed: Inventory) -> tuple[str, ...]:
    """Say it host by host, in the order of the plan; nothing of hosts that are still to be bought."""
    added = {host.name for host in observed.hosts if is_added(host.moid)}
    efforts = {name: one for name, one in host_efforts(plan.changes).items() if name not in added}
    found = {name: ", ".join(_words(one, plan, observed)) for name, one in efforts.items()}
    told = [f"{name}: {words}" for name, words in found.items() if words]
    off = dict.fromkeys(change.vm.name for change in plan.changes if isinstance(change, PowerOffVm))
    if off:
        told.append(f"switched off for a time: {', '.join(off)}")
    return tuple(told)


def _words(effort: HostEffort, plan: Plan, observed: Inventory) -> Iterator[str]:
    if effort.text:
        yield effort.text
    if effort.moved:
        yield f"moves {', '.join(effort.moved)}"
    if effort.by_hand:
        own = {vm.name for vm in plan.desired.vms}
        moids = [host.moid for host in observed.hosts if host.name == effort.name]
        running = [
            vm.name
            for moid in moids
            for vm in observed.vms_by_host.get(moid, ())
            if vm.is_on and not vm.is_template and vm.name not in own
        ]
        yield f"steps by hand; others there: {fold_names(sorted(running))}" if running else "steps by hand"
