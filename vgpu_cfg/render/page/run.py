"""A run as one page: its result, the work on each host and VM over time, failures, and remaining work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, Outcome, OutcomeStatus, Report, Rollback
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.page.frame import Tile, moment_words, render_frame
from vgpu_cfg.render.views.run.host_result import host_rows, left_lines, other_left_behind
from vgpu_cfg.render.views.run.run_steps import StepDone, run_counts, run_verdict, seconds_of, steps_done
from vgpu_cfg.render.views.run.timeline import run_timeline


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
        tiles=tuple(_tiles(plan, report)),
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


def _tiles(plan: Plan, report: Report) -> list[Tile]:
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
