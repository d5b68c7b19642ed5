"""Rows of DISRUPTION: what a plan stops, restarts, moves, deletes or cuts off, for every output."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.plan.change import DestroyVm, Impact, Plan, RelocateVm
from vgpu_cfg.model.plan.disturbed import Experience
from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.render.layout.lines import duration
from vgpu_cfg.render.views.plan.whole import BLOCKED, host_efforts

_IMPACT_WORDS = {
    Impact.SERVICE_RESTART: "service restart",
    Impact.VMOTION: "vMotion",
    Impact.POWER_CYCLE: "power cycle",
    Impact.HOST_MAINTENANCE: "maintenance mode",
    Impact.HOST_REBOOT: "host reboot",
    Impact.HOST_COLD_BOOT: "host cold boot",
}
_SHOWN_WITH_CHANGES = frozenset({Experience.VMOTION, Experience.POWERED_OFF})
"""The row of the host, or of the change itself, says these."""


def disruption_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield who is disturbed, folded, and how; hosts first."""
    efforts = [effort for effort in host_efforts(plan.changes).values() if effort.text]
    by_words: dict[str, list[str]] = {}
    for effort in efforts:
        words = [effort.text]
        words += [f"moves away {fold_names(effort.moved)}"] * bool(effort.moved)
        words += [f"switches off {fold_names(effort.switched_off)}"] * bool(effort.switched_off)
        by_words.setdefault("; ".join(words), []).append(effort.name)
    yield from ((fold_names(names), what) for what, names in by_words.items())
    reported = {name for effort in efforts for name in effort.switched_off}
    for (what, is_blocked), names in other_disruptions(plan, reported).items():
        yield fold_names(names), f"{what}, {BLOCKED}" if is_blocked else what


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
    return by_words | _shared(plan)


def _shared(plan: Plan) -> dict[tuple[str, bool], list[str]]:
    """Group what is disturbed besides what the changes are about; each name once a row."""
    rows: dict[tuple[str, bool], list[str]] = {}
    for one in plan.disturbed:
        if one.experience in _SHOWN_WITH_CHANGES:
            continue
        words = [one.experience.value]
        words += [f"through {one.through}"] * bool(one.through)
        words += ["(this plan's)"] * one.is_own
        text = " ".join(words) + (f", {one.note}" if one.note else "")
        names = rows.setdefault((text, one.change in plan.blocked), [])
        if one.subject.name not in names:
            names.append(one.subject.name)
    return rows
