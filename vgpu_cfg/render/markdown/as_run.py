"""What a run did, as a document for the file: every step with times, result, tasks and what was read back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import Change, ManualStep, Plan
from vgpu_cfg.model.plan.report import Event, EventKind, Outcome, OutcomeStatus, Report, SettingReading
from vgpu_cfg.render.layout.lines import counted, duration
from vgpu_cfg.render.markdown.quoting import environment, tidy
from vgpu_cfg.render.views.host_result import HostRow, host_rows, is_settled, standing_text

_NOT_ENDED = "not ended"
_NOT_BEGUN = "not begun"
_WORDS = {OutcomeStatus.NOT_NEEDED: "was so already", OutcomeStatus.FAILED: "FAILED"}


@dataclass(frozen=True, slots=True)
class StepDone:
    """What became of one step. `result` says so in words; a time is empty where it is not known."""

    number: int
    title: str
    subject: str
    result: str
    began: str
    took: str
    tasks: tuple[str, ...]
    message: str
    remedy: str
    notes: tuple[str, ...]
    readings: tuple[tuple[str, str, str, str, str], ...]

    @property
    def is_shown(self) -> bool:
        """Whether there is more to say of it than one line of a table holds."""
        return bool(self.readings or self.notes or self.remedy)


def render_as_run(
    plan: Plan,
    journal_events: Sequence[Event],
    report: Report | None,
    *,
    by: str = "",
    after: Inventory | None = None,
) -> str:
    """Write what became of a plan as Markdown.

    `report` is None where a run never came to its end: then the journal's events tell how far it got.
    `by` says who ran it from where, `after` is a reading made after the run.
    """
    steps = steps_done(plan, journal_events, report)
    times = [event.at for event in journal_events]
    rows = host_rows(plan, report, after) if report is not None else ()
    waiting = [
        change
        for change in plan.changes
        if report is not None and change.id in report.waiting_for and isinstance(change, ManualStep)
    ]
    text = (
        environment()
        .get_template("as_run.md.j2")
        .render(
            plan=plan,
            report=report,
            by=by,
            began=_time(min(times)) if times else "",
            ended=_time(max(times)) if times else "",
            took=duration((max(times) - min(times)).total_seconds()) if times else "",
            verdict=_verdict(plan, report),
            standing=standing_text(plan, report, rows) if report is not None else "",
            steps=steps,
            hosts=[(row, _read_back(row), duration(row.seconds) if row.seconds else "") for row in rows],
            waiting=waiting,
        )
    )
    return tidy(text)


def steps_done(plan: Plan, events: Sequence[Event], report: Report | None) -> list[StepDone]:
    """Return what became of every step of a plan, in its order."""
    outcomes = {outcome.change_id: outcome for outcome in (report.outcomes if report is not None else ())}
    by_change: dict[str, list[Event]] = {}
    for event in events:
        by_change.setdefault(event.change_id, []).append(event)
    return [
        _step(number, change, outcomes.get(change.id), by_change.get(change.id, []), report)
        for number, change in enumerate(plan.changes, 1)
    ]


def _step(
    number: int, change: Change, outcome: Outcome | None, events: Sequence[Event], report: Report | None
) -> StepDone:
    """Take an outcome where there is one, else what events tell."""
    began = next((event.at for event in events if event.kind is EventKind.STARTED), None)
    last = next((event for event in reversed(events) if event.kind is EventKind.ENDED), None)
    ended = last.at if last is not None else None
    status = last.status if last is not None else None
    message = last.message if last is not None else ""
    tasks = tuple(
        dict.fromkeys(event.task for event in events if event.kind is EventKind.TASK and event.task)
    )
    remedy = ""
    if outcome is not None:
        began, ended, status = outcome.started_at or began, outcome.ended_at or ended, outcome.status
        message, remedy, tasks = outcome.message, outcome.remedy, outcome.tasks or tasks
    is_run = status in (OutcomeStatus.DONE, OutcomeStatus.FAILED, OutcomeStatus.NOT_NEEDED) or status is None
    return StepDone(
        number=number,
        title=change.id,
        subject=change.subject.name,
        result=_result(change, status, began, report),
        began=_time(began) if began is not None and is_run else "",
        took=duration((ended - began).total_seconds()) if began and ended and is_run else "",
        tasks=tasks,
        message=message.removeprefix(f"{change.id}: "),
        remedy=remedy if status is OutcomeStatus.FAILED else "",
        notes=tuple(event.message for event in events if event.kind is EventKind.NOTE),
        readings=_readings(outcome),
    )


def _result(
    change: Change, status: OutcomeStatus | None, began: datetime | None, report: Report | None
) -> str:
    if report is not None and change.id in report.waiting_for:
        return "needs a manual step"
    if status is None:
        return _NOT_ENDED if began is not None else _NOT_BEGUN
    return _WORDS.get(status, status.value)


def _readings(outcome: Outcome | None) -> tuple[tuple[str, str, str, str, str], ...]:
    """Return what was read back: setting, wanted, configured, in force, and what that comes to."""
    return tuple(
        (
            f"{one.setting} {one.device}".rstrip(),
            one.wanted,
            one.configured if one.configured is not None else "not read",
            one.runtime if one.runtime is not None else "",
            _verdict_of(one),
        )
        for one in (outcome.readings if outcome is not None else ())
    )


def _verdict_of(reading: SettingReading) -> str:
    if is_settled(reading):
        return "as wanted"
    if reading.differs:
        return "differs"
    return f"waits for a {reading.waits_for}" if reading.waits_for else "not shown"


def _read_back(row: HostRow) -> str:
    if not row.readings:
        return ""
    return f"{len(row.readings) - len(row.unsettled)} of {len(row.readings)} as wanted"


def _verdict(plan: Plan, report: Report | None) -> str:
    if report is None:
        return "The run broke off: what is not ended below may have gone on in vCenter."
    words = "done"
    if report.failed:
        words = f"{counted(len(report.failed), 'step')} failed"
    elif report.is_interrupted:
        words = "stopped by its user"
    elif report.waiting_for:
        words = f"waits for {counted(len(report.waiting_for), 'step')} by hand"
    return f"{counted(len(plan.changes), 'step')}, {counted(report.tasks, 'task')} in vCenter: {words}."


def _time(moment: datetime) -> str:
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
