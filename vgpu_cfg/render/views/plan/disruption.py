"""Which changes of a plan stop, restart, move or delete something, beside what is done to hosts."""

from __future__ import annotations

from vgpu_cfg.model.plan.change import DestroyVm, Impact, Plan, RelocateVm
from vgpu_cfg.render.layout.lines import duration

_IMPACT_WORDS = {
    Impact.SERVICE_RESTART: "service restart",
    Impact.VMOTION: "vMotion",
    Impact.POWER_CYCLE: "power cycle",
    Impact.HOST_MAINTENANCE: "maintenance mode",
    Impact.HOST_REBOOT: "host reboot",
    Impact.HOST_COLD_BOOT: "host cold boot",
}


def other_disruptions(plan: Plan, reported: set[str]) -> dict[tuple[str, bool], list[str]]:
    """Group what is not a host by what happens to it, and whether that is blocked.

    `reported` are VMs that a host's row names.
    """
    removed = {change.subject.name for change in plan.changes if isinstance(change, DestroyVm)}
    blocked = {change.subject.name for change in plan.changes if change.id in plan.blocked}
    impacts: dict[str, set[Impact]] = {}
    by_words: dict[tuple[str, bool], list[str]] = {}
    for change in plan.changes:
        name = change.subject.name
        if isinstance(change, DestroyVm):
            by_words.setdefault(("deletion", name in blocked), []).append(name)
        elif change.subject.kind == "host" or change.impact is Impact.NONE or name in removed:
            continue
        elif not (name in reported and change.kind in ("power_off_vm", "power_on_vm")):
            impacts.setdefault(name, set()).add(change.impact)
    stuns = {one.vm.name: one.stun_ms for one in plan.changes if isinstance(one, RelocateVm)}
    for name, found in impacts.items():
        words = ", ".join(word for impact, word in _IMPACT_WORDS.items() if impact in found)
        if Impact.VMOTION in found and (stun := stuns.get(name)) is not None:
            words += f", {duration(stun / 1000)}"
        by_words.setdefault((words, name in blocked), []).append(name)
    return by_words
