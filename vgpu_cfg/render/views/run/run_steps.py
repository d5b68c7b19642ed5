"""What became of each step of a run, in words: for a document of it, and for a list on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, Outcome, OutcomeStatus, Report, SettingReading
from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.views.run.host_result import is_settled

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
        began=moment_text(began) if began is not None and is_run else "",
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


def moment_text(moment: datetime) -> str:
    """Say when, in the time of this machine."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"
