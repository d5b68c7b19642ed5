"""What a plan disturbs, in a few words for each host and for the VMs that go off.

Of steps by hand the plan does not say whom they disturb: what runs on their host is named.
"""

from __future__ import annotations

from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import (
    EnterMaintenance,
    ManualStep,
    Plan,
    PowerOffVm,
    RebootHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.planning.expand.ranges import fold_names


def disturbed(plan: Plan, observed: Inventory) -> tuple[str, ...]:
    """Say it host by host, in the order of the plan; nothing where nothing is disturbed."""
    hosts: dict[str, dict[str, None]] = {}
    off: dict[str, None] = {}
    for change in plan.changes:
        match change:
            case EnterMaintenance():
                words = hosts.setdefault(change.subject.name, {})
                words["maintenance mode"] = None
                if change.evacuates:
                    words[f"moves {', '.join(change.evacuates)}"] = None
            case RebootHost():
                hosts.setdefault(change.subject.name, {})["1 reboot"] = None
            case ShutDownHost():
                hosts.setdefault(change.subject.name, {})["1 cold boot"] = None
            case RestartService():
                hosts.setdefault(change.subject.name, {})[f"restart of {change.service}"] = None
            case ManualStep() if change.subject.kind == "host":
                by_hand = _by_hand(change.subject.moid or "", plan, observed)
                hosts.setdefault(change.subject.name, {})[by_hand] = None
            case PowerOffVm():
                off[change.vm.name] = None
            case _:
                pass
    told = [f"{name}: {', '.join(words)}" for name, words in hosts.items()]
    if off:
        told.append(f"switched off for a time: {', '.join(off)}")
    return tuple(told)


def _by_hand(host_moid: str, plan: Plan, observed: Inventory) -> str:
    own = {vm.name for vm in plan.desired.vms}
    running = [
        vm.name
        for vm in observed.vms_by_host.get(host_moid, ())
        if vm.is_on and not vm.is_template and vm.name not in own
    ]
    return f"steps by hand; {fold_names(sorted(running))} run there" if running else "steps by hand"
