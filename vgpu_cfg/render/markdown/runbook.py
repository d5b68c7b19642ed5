"""A plan as a document to follow manually, with proof and undo of each step, and its run as a record.

Belief: client-menu-paths, bios-menu-paths.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from heapq import heappop, heappush
from typing import Any

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.by_hand import Part
from vgpu_cfg.changes.change import Change, ManualStep
from vgpu_cfg.changes.plan import Canary, Plan, UnknownHost, UnknownSetting
from vgpu_cfg.changes.report import Event, Report
from vgpu_cfg.changes.values import HostRef
from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.described import PlanTables, SettingsLookup
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.networks.network_users import switch_needs
from vgpu_cfg.render.markdown.quoting import environment, tidy
from vgpu_cfg.render.markdown.switches import SwitchView, switch_view
from vgpu_cfg.render.views.plan import alike, at_most, canary_text, disruption_rows, plan_counts, waits_for
from vgpu_cfg.render.views.run.run_steps import HostResult, host_rows, moment_text, standing_text, steps_done

_KINDS = {"host": "host", "vm": "VM", "cluster": "cluster", "network": "network"}


@dataclass(frozen=True, slots=True)
class LabAccess:
    """How a person reaches a lab, which answers at no address until it is served; ready for a shell."""

    serve: str
    url: str
    user: str
    password: str
    certificate: str
    ssh_config: str


@dataclass(frozen=True, slots=True)
class RunbookStep:
    """A numbered step of a runbook. `after` are the steps it needs; `done` is how it is acknowledged.

    `canary` says who must be as planned before it is begun.
    """

    number: int
    title: str
    subject: str
    parts: tuple[Part, ...]
    after: tuple[int, ...] = ()
    is_by_hand: bool = False
    done: str = ""
    canary: str = ""


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


def render_as_run(
    plan: Plan,
    journal_events: Sequence[Event],
    report: Report | None,
    *,
    by: str = "",
    occasion: Occasion = NO_OCCASION,
) -> str:
    """Write the outcome of a plan as Markdown.

    `report` is None if a run never came to its end: then the journal's events show its progress. `by` is the
    user and machine, `occasion` the purpose.
    """
    steps = steps_done(plan, journal_events, report)
    times = [event.at for event in journal_events]
    rows = host_rows(plan, report) if report is not None else ()
    waiting = [
        step
        for step in of_kind(plan.changes, ManualStep)
        if report is not None and step.id in report.waiting_for
    ]
    text = (
        environment()
        .get_template("as_run.md.j2")
        .render(
            plan=plan,
            report=report,
            by=by,
            occasion=occasion.text,
            began=moment_text(min(times)) if times else "",
            ended=moment_text(max(times)) if times else "",
            took=duration((max(times) - min(times)).total_seconds()) if times else "",
            verdict=_verdict(plan, report),
            standing=standing_text(plan, report, rows) if report is not None else "",
            steps=steps,
            hosts=[(row, _read_back(row), duration(row.seconds) if row.seconds else "") for row in rows],
            waiting=waiting,
        )
    )
    return tidy(text)


def _read_back(row: HostResult) -> str:
    if not row.readings:
        return ""
    return f"{len(row.readings) - len(row.unsettled)} of {len(row.readings)} as expected"


def _verdict(plan: Plan, report: Report | None) -> str:
    if report is None:
        return "The run was interrupted. Steps without an end time may have completed in vCenter."
    words = "done"
    problems = [problem for canary in report.canaries for problem in canary.problems]
    if report.failed:
        words = f"{counted(len(report.failed), 'step')} failed"
    elif problems:
        words = f"stopped because the canary did not match the plan: {problems[0]}"
    elif report.is_interrupted:
        words = "stopped by the user"
    elif report.waiting_for:
        words = f"waiting for {counted(len(report.waiting_for), 'step')} to be completed manually"
    return f"{counted(len(plan.changes), 'step')}, {counted(report.tasks, 'task')} in vCenter: {words}."


def runbook_data(
    plan: Plan,
    settings_lookup: SettingsLookup,
    views: Mapping[str, HostView],
    *,
    apply_command: str = "",
    occasion: Occasion,
) -> dict[str, Any]:
    """Return the steps of a plan, each with its parts, as `render_runbook` writes them."""
    steps = runbook_steps(plan, settings_lookup, views, apply_command=apply_command)
    rows = ("what", "before", "after")
    return {
        "plan": plan.name,
        "digest": plan.digest,
        "server": plan.target.address,
        "datacenter": plan.target.datacenter,
        "read_at": plan.read_at.isoformat(),
        "occasion": asdict(occasion),
        "findings": [found.model_dump(mode="json") for found in alike(plan.diagnostics)],
        "steps": [
            asdict(step)
            | {
                "parts": [
                    asdict(part) | {"rows": [dict(zip(rows, row, strict=True)) for row in part.rows]}
                    for part in step.parts
                ]
            }
            for step in steps
        ],
        "switches": [_switch(switch_view(needs)) for needs in switch_needs(plan)],
    }


def _switch(view: SwitchView) -> dict[str, Any]:
    """Return a network of the physical switch: what its ports need, and the proposals."""
    return {
        **asdict(view.needs),
        "why_not_proposed": view.why_not,
        "proposals": [
            {"system": one.system, "lines": one.lines, "documents": [name for name, _ in one.documents]}
            for one in view.proposals
        ],
    }


def as_run_data(
    plan: Plan, events: Sequence[Event], report: Report | None, *, by: str, run: str, occasion: Occasion
) -> dict[str, Any]:
    """Return what one run did; `report` is None where it never came to its end."""
    times = [event.at for event in events]
    return {
        "plan": plan.name,
        "digest": plan.digest,
        "run": run,
        "by": by,
        "occasion": asdict(occasion),
        "began": min(times).isoformat() if times else None,
        "ended": max(times).isoformat() if times else None,
        "is_ended": report is not None,
        "steps": [asdict(step) for step in steps_done(plan, events, report)],
    }
