"""A plan as a document for a colleague without this tool: a check list, then steps with proof and undo.

Belief: client-menu-paths, bios-menu-paths.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from vgpu_cfg.changes.by_hand import Part
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Canary, Plan, UnknownHost, UnknownSetting
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.planning.described import PlanTables, SettingsLookup
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.networks.network_users import switch_needs
from vgpu_cfg.render.markdown.quoting import LabAccess, RunbookStep, environment, tidy
from vgpu_cfg.render.markdown.switches import switch_view
from vgpu_cfg.render.views.plan.disruption import at_most, disruption_rows
from vgpu_cfg.render.views.plan.whole import canary_text, plan_counts, waits_for

_KINDS = {"host": "host", "vm": "VM", "cluster": "cluster", "network": "network"}


def render_runbook(
    plan: Plan,
    settings_lookup: SettingsLookup,
    *,
    views: Mapping[str, HostView] | None = None,
    apply_command: str = "",
    lab: LabAccess | None = None,
    occasion: Occasion = NO_OCCASION,
) -> str:
    """Write a plan as Markdown.

    `settings_lookup` returns an entry of the settings table by its key (KeyError if there is none), `views`
    holds each host of the plan as it was read, by moid: without it only a setting's values are shown.
    `apply_command` is the tool's own command line, for steps from which it continues. `lab` is the access to
    the lab that the plan is for, `occasion` the purpose of the work.
    """
    steps = runbook_steps(plan, settings_lookup, views or {}, apply_command=apply_command)
    template = environment().get_template("runbook.md.j2")
    text = template.render(
        plan=plan,
        read_at=f"{plan.read_at.astimezone():%Y-%m-%d %H:%M %Z}",
        steps=steps,
        counts=", ".join(plan_counts(plan)),
        disrupted=tuple(disruption_rows(plan)),
        unknown=[_unknown(found) for found in plan.unknown],
        by_hand=[step for step in steps if step.is_by_hand],
        server=shlex.quote(plan.target.address),
        datacenter=shlex.quote(plan.target.datacenter) if plan.target.datacenter else "",
        lab=lab,
        occasion=occasion.text,
        switches=[switch_view(needs) for needs in switch_needs(plan)],
    )
    return tidy(text)


def runbook_steps(
    plan: Plan,
    settings_lookup: SettingsLookup,
    views: Mapping[str, HostView],
    *,
    apply_command: str = "",
) -> list[RunbookStep]:
    """Return the steps of a plan, numbered as `plan` numbers them, each after those that it needs."""
    numbers = {change.id: number for number, change in enumerate(plan.changes, 1)}
    tables = PlanTables(plan, views, settings_lookup)
    steps = []
    waiting = {held: canary for canary in plan.canaries for held in canary.held}
    asked: set[Canary] = set()
    for number, change in _in_order(plan.changes):
        is_typed = apply_command and change.needs_acknowledgement
        done = f"{apply_command} --done {shlex.quote(change.id)}" if is_typed else ""
        canary = waiting.get(change.id)
        steps.append(
            RunbookStep(
                number=number,
                title=change.id,
                subject=_subject(change, plan),
                parts=_with_restarts(change, plan.changes[number:], change.by_hand(tables)),
                after=tuple(sorted(numbers[need] for need in change.needs if need in numbers)),
                is_by_hand=change.face.is_by_hand,
                done=done,
                canary=canary_text(canary) if canary is not None and canary not in asked else "",
            )
        )
        asked |= {canary} if canary is not None else set()
    return steps


def _in_order(changes: Sequence[Change]) -> Iterator[tuple[int, Change]]:
    """Yield the changes with their numbers as a person can do them: in the plan's order, save for needs.

    Rules and overrides of a cluster are last in a plan, and power-ons wait for them.
    """
    numbers = {change.id: number for number, change in enumerate(changes, 1)}
    unmet = [{numbers[need] for need in change.needs if need in numbers} for change in changes]
    waiting: dict[int, list[int]] = {}
    for number, needs in enumerate(unmet, 1):
        for need in needs:
            waiting.setdefault(need, []).append(number)
    ready = [number for number, needs in enumerate(unmet, 1) if not needs]
    while ready:
        number = heappop(ready)
        yield number, changes[number - 1]
        for other in waiting.get(number, ()):
            unmet[other - 1].discard(number)
            if not unmet[other - 1]:
                heappush(ready, other)


def _subject(change: Change, plan: Plan) -> str:
    if change.face.is_of_vcenter:
        return f"vCenter {plan.target.address}"
    return f"{_KINDS.get(change.subject.kind, change.subject.kind)} {change.subject.name}"


def _with_restarts(change: Change, later: Sequence[Change], parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Say of every setting that is written what brings it into force."""
    if len(parts) != len(change.writes):
        return parts
    own = [(0, other) for other in later if other.subject.name == change.subject.name]
    return tuple(
        replace(part, in_force=waits_for(target, own))
        for part, target in zip(parts, change.writes, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A host to check: the unknown settings, their possible effect, and lines for its shell."""

    host: HostRef
    settings: tuple[UnknownSetting, ...]
    at_most: str
    lines: tuple[str, ...]


def _unknown(found: UnknownHost) -> _Unknown:
    lines = dict.fromkeys(line for setting in found.settings for line in setting.verify)
    return _Unknown(found.host, found.settings, at_most(found), tuple(lines))
