"""What a plan disturbs, in a few words for each host and for the VMs that go off."""

from __future__ import annotations

from vgpu_cfg.model.plan.change import (
    EnterMaintenance,
    ManualStep,
    Plan,
    PowerOffVm,
    RebootHost,
    RestartService,
    ShutDownHost,
)


def disturbed(plan: Plan) -> tuple[str, ...]:
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
                hosts.setdefault(change.subject.name, {})["steps by hand"] = None
            case PowerOffVm():
                off[change.vm.name] = None
            case _:
                pass
    told = [f"{name}: {', '.join(words)}" for name, words in hosts.items()]
    if off:
        told.append(f"switched off for a time: {', '.join(off)}")
    return tuple(told)
