"""Pages of a plan: its effects and refusals, the course and result of its run, and the state after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.report import Event, EventKind, Outcome, OutcomeStatus, Report, Rollback
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.sync import is_in_sync, waits_for
from vgpu_cfg.render.page.frame import Tile, moment_words, render_frame
from vgpu_cfg.render.views.estate.inventory import profile_text
from vgpu_cfg.render.views.pictures.plan_picture import PlanPicture
from vgpu_cfg.render.views.plan import disruption_rows, error_count, plan_counts, untouched
from vgpu_cfg.render.views.run.run_steps import (
    StepDone,
    host_rows,
    left_lines,
    other_left_behind,
    run_counts,
    run_verdict,
    seconds_of,
    steps_done,
)
from vgpu_cfg.render.views.run.timeline import plan_timeline, run_timeline
from vgpu_cfg.render.views.status import StatusView, verdict_of


def render_plan_page(plan: Plan, told: dict[str, Any], picture: PlanPicture) -> str:
    """Write the page of a plan and of its JSON; any name in it stays text."""
    place = ", ".join(part for part in (plan.target.address, plan.target.datacenter) if part)
    return render_frame(
        "plan",
        title=f"{plan.name}: plan {plan.digest}",
        about=f"{place}, read {moment_words(plan.read_at)}",
        tiles=tuple(_plan_tiles(plan)),
        body="plan.html.j2",
        shared=("wiring", "estate", "changes", "turns"),
        data={
            "kind": "plan-page",
            "format": 1,
            "told": told,
            "before": asdict(picture.before),
            "after": {
                "hosts": {name: asdict(host) for name, host in picture.changed_hosts.items()},
                "vms": [asdict(vm) for vm in picture.vms_after],
                "totals": asdict(picture.totals_after),
            },
            "marks": [asdict(mark) | {"sign": mark.sign} for mark in picture.marks],
        },
        more={
            "plan": plan,
            "errors": _refusals(plan),
            "fixes": told["fixes"],
            "marks": picture.marks,
            "disrupted": tuple(disruption_rows(plan)),
            "rest": "".join(untouched(plan)),
            "findings": plan.diagnostics,
            "line": plan_timeline(plan),
            "unit": "turns",
        },
    )


def _plan_tiles(plan: Plan) -> list[Tile]:
    """Take the words of the plan's totals apart: "2 VMs new" is 2, VMs new."""
    tiles = []
    if plan.errors:
        errors = counted(error_count(plan.diagnostics), "error")
        tiles.append(Tile.of(errors, "must be fixed before any changes are made"))
    if not plan.changes:
        verdict = (
            waits_for(plan) or "in sync" if is_in_sync(plan) else "" if plan.errors else "differences found"
        )
        return [*tiles, Tile("0", "changes", verdict)]
    *words, tasks = plan_counts(plan)
    blocked = f"{len(plan.blocked)} blocked; {tasks}" if plan.blocked else tasks
    tiles.append(Tile.of(counted(len(plan.changes), "change"), blocked))
    return [*tiles, *(Tile.of(one) for one in words)]


def _refusals(plan: Plan) -> list[tuple[Diagnostic, int]]:
    """Return each error with how many changes of its subject are blocked."""
    blocked = set(plan.blocked)
    counts: dict[tuple[str, str], int] = {}
    for change in plan.changes:
        key = (change.subject.kind, change.subject.name)
        counts[key] = counts.get(key, 0) + (change.id in blocked)
    return [
        (found, counts.get((found.subject.kind, found.subject.name), 0))
        for found in plan.diagnostics
        if found.severity is Severity.ERROR
    ]


@dataclass(frozen=True, slots=True)
class _Left:
    """Something that is left: whose, what, and what to do or type."""

    name: str
    what: str
    do: str = ""
    commands: tuple[str, ...] = ()


def render_run_page(plan: Plan, report: Report, told: dict[str, Any], events: Sequence[Event]) -> str:
    """Write the page of a run, of its JSON and its events; any name in it stays text."""
    every, outcomes = _with_rollback(plan, report)
    began = min((one.started_at for one in outcomes if one.started_at), default=None)
    place = ", ".join(part for part in (plan.target.address, plan.target.datacenter) if part)
    when = f"started {moment_words(began)}" if began is not None else "nothing was started"
    parts = (place, when, f"run {report.run}" if report.run else "", report.occasion.text)
    noted = [event for event in events if event.kind is not EventKind.PROGRESS]
    return render_frame(
        "run",
        title=f"{plan.name}: run of plan {report.digest}",
        about=", ".join(part for part in parts if part),
        tiles=tuple(_run_tiles(plan, report)),
        body="run.html.j2",
        shared=("changes",),
        data={
            "kind": "run-page",
            "format": 1,
            "told": told,
            "plan": plan.model_dump(mode="json"),
            "events": [event.model_dump(mode="json") for event in noted],
        },
        more={
            "failed": [one for one in outcomes if one.status is OutcomeStatus.FAILED],
            "left": tuple(_left(plan, report)),
            "line": run_timeline(every.changes, report.model_copy(update={"outcomes": outcomes})),
            "unit": "duration of the run",
            "steps": _steps(every, noted, report.model_copy(update={"outcomes": outcomes})),
            "vms": told["vms"],
            "hosts": told["hosts"],
            "took": lambda seconds: duration(seconds) if seconds else "",
        },
    )


def _with_rollback(plan: Plan, report: Report) -> tuple[Plan, tuple[Outcome, ...]]:
    """Return the plan and the outcomes with those of a rollback after them."""
    rollback = report.rollback or Rollback()
    changes = (*plan.changes, *rollback.changes)
    return plan.model_copy(update={"changes": changes}), (*report.outcomes, *rollback.outcomes)


def _run_tiles(plan: Plan, report: Report) -> list[Tile]:
    outcomes = _with_rollback(plan, report)[1]
    took = duration(seconds_of(outcomes)) if outcomes else ""
    tiles = [Tile(run_verdict(report).lower(), f"in {took}" if took else "nothing to do")]
    for words in run_counts(plan, report):
        value, _, title = words.partition(" ")
        tiles.append(Tile(value, title))
    return tiles


def _steps(plan: Plan, events: Sequence[Event], report: Report) -> list[tuple[StepDone, str]]:
    """Return what became of every step, with the time in UTC at which it began."""
    times = {one.change_id: one.started_at for one in report.outcomes}
    return [
        (step, f"{at.astimezone(UTC):%H:%M:%S} UTC" if step.began and (at := times.get(step.title)) else "")
        for step in steps_done(plan, events, report)
    ]


def _left(plan: Plan, report: Report) -> Iterator[_Left]:
    """Yield the remaining work, manual steps first."""
    steps = {step.id: step for step in of_kind(plan.changes, ManualStep)}
    for name in report.waiting_for:
        if step := steps.get(name):
            yield _Left(step.subject.name, f"waiting for the manual step {name}", step.text, step.commands)
    yield from (_Left(name, "interrupted; check its result") for name in report.put_off)
    yield from (_Left("", text) for text in other_left_behind(report, host_rows(plan, report)))
    reasons: dict[str, list[str]] = {}
    for one in report.outcomes:
        if one.status is OutcomeStatus.SKIPPED and one.change_id not in report.waiting_for:
            reasons.setdefault(one.message, []).append(one.change_id)
    for reason, names in reasons.items():
        yield _Left(fold_names(names), f"not started: {reason}")
    for canary in report.canaries:
        for problem in canary.problems:
            yield _Left(fold_names(canary.names), f"canary does not match the plan: {problem}")
        if not canary.goes_on:
            yield _Left(fold_names(canary.others), "not started: stopped by the canary")
    if report.rollback is not None:
        yield from _of_rollback(report.rollback)


def _of_rollback(rollback: Rollback) -> Iterator[_Left]:
    if rollback.why_not:
        yield _Left("", f"not rolled back: {rollback.why_not}")
    for one in rollback.kept:
        yield _Left(one.subject.name, f"not rolled back: {one.message} ({one.code})", one.remedy)
    yield from (_Left("", text) for text in left_lines(rollback.left_behind))


def render_status_page(view: StatusView, told: dict[str, Any]) -> str:
    """Write the page of a status and of its JSON; any name in it stays text."""
    place = ", ".join(part for part in (view.server, view.datacenter) if part)
    return render_frame(
        "status",
        title=f"{view.plan}: status",
        about=f"{place}, read {moment_words(datetime.fromisoformat(view.read_at))}",
        tiles=tuple(_status_tiles(view)),
        body="status.html.j2",
        shared=("changes", "seek"),
        data={"kind": "status-page", "format": 1, "told": told},
        more={
            "view": view,
            "groups": _groups(view.differences),
            "findings": view.findings,
            "moment": moment_words,
            "profiles": profile_text,
        },
    )


def _status_tiles(view: StatusView) -> list[Tile]:
    _, words = verdict_of(view)
    tiles = [
        Tile(
            view.waits or ("in sync" if view.is_in_sync else "not in sync"),
            "" if words in ("in sync", view.waits) else words,
        )
    ]
    for rows, noun in ((view.hosts, "host"), (view.vms, "VM")):
        if rows:
            differ = sum(not row.is_in_sync for row in rows)
            tiles.append(
                Tile(f"{differ} of {len(rows)}", f"{noun}s differ" if len(rows) > 1 else f"{noun} differs")
            )
    hands = sum(bool(one.by) for one in view.differences)
    tiles.append(Tile(f"{len(view.differences)}", "values differ", f"changed by known users: {hands}"))
    return tiles


def _groups(differences: tuple[Difference, ...]) -> list[tuple[str, str, list[Difference]]]:
    """Return the differences by their subject."""
    return [
        (kind, name, list(group))
        for (kind, name), group in groupby(differences, key=lambda one: (one.subject.kind, one.subject.name))
    ]
