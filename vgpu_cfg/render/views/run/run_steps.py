"""Runs as rows: who ran what and when, the result of each host, step and VM, and the verdict on the whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, Outcome, OutcomeStatus, Report, SettingReading
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.occasion import Occasion
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.render.views.run.host_result import host_result_counts, is_settled
from vgpu_cfg.render.views.status import VmRow, gpus_by_vm, make_row, staged_status

_NOT_ENDED = "not finished"
_NOT_BEGUN = "not started"
_WORDS = {OutcomeStatus.NOT_NEEDED: "already done", OutcomeStatus.FAILED: "FAILED"}
NO_END = "end unknown"
"""The result of a run that goes on, or was interrupted."""


@dataclass(frozen=True, slots=True)
class StepDone:
    """The result of one step. `result` says so in words; a time is empty where it is not known."""

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

    @property
    def is_done(self) -> bool:
        """Whether it was made, or had already been done."""
        return self.result in (OutcomeStatus.DONE.value, _WORDS[OutcomeStatus.NOT_NEEDED])


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
    """Use an outcome if there is one, else the events."""
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
    is_run = status is not OutcomeStatus.SKIPPED
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
    """Return the readback: setting, wanted, configured, in effect, and the resulting state."""
    return tuple(
        (
            f"{one.setting} {one.device}".rstrip(),
            one.wanted,
            one.configured if one.configured is not None else "not readable",
            one.runtime if one.runtime is not None else "",
            _verdict_of(one),
        )
        for one in (outcome.readings if outcome is not None else ())
    )


def _verdict_of(reading: SettingReading) -> str:
    if is_settled(reading):
        return "as expected"
    if reading.differs:
        return "differs"
    return f"pending {reading.waits_for}" if reading.waits_for else "not visible"


def moment_text(moment: datetime) -> str:
    """Say when, in the time of this machine."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M:%S}"


def run_verdict(report: Report) -> str:
    """Return DONE, WAITING (for a manual step, or another time), FAILED or STOPPED (by its user)."""
    if report.is_interrupted:
        return "STOPPED"
    if report.has_failed:
        return "FAILED"
    return "WAITING" if report.waiting_for or report.put_off else "DONE"


def run_counts(plan: Plan, report: Report) -> list[str]:
    """Count the steps done, in words: "2 made", "1 failed", "4 tasks"."""
    changes = {change.id: change for change in plan.changes}
    counts: Counter[str] = Counter()
    for outcome in report.outcomes:
        if outcome.status is OutcomeStatus.DONE:
            word = changes[outcome.change_id].done
            counts.update([word] if word else [])
        elif outcome.status is not OutcomeStatus.NOT_NEEDED and outcome.change_id not in report.waiting_for:
            counts[outcome.status.value] += 1
    words = [f"{number} {word}" for word, number in counts.items()]
    return [*host_result_counts(plan, report), *words, counted(report.tasks, "task")]


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The result of one VM: its current state (None if it is gone or was not read), tasks and time."""

    name: str
    status: OutcomeStatus
    vm: VmRow | None
    tasks: int
    seconds: float


def result_rows(plan: Plan, report: Report, after: Inventory | None) -> tuple[ResultRow, ...]:
    """Make a row for each VM that the run was about, in the plan's order."""
    holders = gpus_by_vm(after) if after is not None else {}
    moids = {outcome.subject.name: outcome.vm_moid for outcome in report.outcomes if outcome.vm_moid}
    stages = {change.vm.name: change for change in of_kind(plan.changes, StageGuest)}
    by_vm: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.subject.kind == "vm":
            by_vm.setdefault(outcome.subject.name, []).append(outcome)
    rows = []
    for name, outcomes in by_vm.items():
        vm = after.vm_by_moid.get(moids.get(name, "")) if after is not None else None
        row = make_row(vm, after, holders) if vm is not None and after is not None else None
        if row is not None and vm is not None and name in stages:
            row = replace(row, guest=staged_status(vm, stages[name]))
        rows.append(
            ResultRow(
                name=name,
                status=_worst(outcomes),
                vm=row,
                tasks=sum(len(outcome.tasks) for outcome in outcomes),
                seconds=seconds_of(outcomes),
            )
        )
    order = {change.subject.name: index for index, change in reversed(tuple(enumerate(plan.changes)))}
    return tuple(sorted(rows, key=lambda row: order.get(row.name, len(order))))


def _worst(outcomes: Sequence[Outcome]) -> OutcomeStatus:
    """Return the most significant status of a VM: failed, done, skipped, not needed."""
    found = {outcome.status for outcome in outcomes}
    order = (OutcomeStatus.FAILED, OutcomeStatus.DONE, OutcomeStatus.SKIPPED)
    return next((status for status in order if status in found), OutcomeStatus.NOT_NEEDED)


def seconds_of(outcomes: Sequence[Outcome]) -> float:
    """Return the time from the first of these to begin to the last to end; 0 if unknown."""
    began = [outcome.started_at for outcome in outcomes if outcome.started_at is not None]
    ended = [outcome.ended_at for outcome in outcomes if outcome.ended_at is not None]
    return (max(ended) - min(began)).total_seconds() if began and ended else 0.0


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `result` is "" if no end of it is recorded; times and `changes` are None if unknown."""

    run: str
    command: str
    plan: str
    plan_id: str
    digest: str
    occasion: Occasion
    user: str
    machine: str
    account: str
    began_at: datetime | None
    ended_at: datetime | None
    result: str
    changes: int | None
    done: int
    failed: int
    tasks: int
    known_from: tuple[str, ...]

    @property
    def short_id(self) -> str:
        """The beginning of the id, which is enough to name the run; the whole of a journal's name."""
        return self.run[:8] if re.fullmatch("[0-9a-f]{12}", self.run) else self.run

    @property
    def who(self) -> str:
        """The account and the machine of its start; that at vCenter if there is no other."""
        return " on ".join(part for part in (self.user, self.machine) if part) or self.account

    @property
    def result_text(self) -> str:
        """How it ended, with counts."""
        if not self.result:
            return NO_END
        if self.result == RunResult.DONE and self.changes in (None, self.done):
            return f"done, {counted(self.done, 'change')}"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.result}, {self.done} of {self.changes}{failed}"

    @property
    def seconds(self) -> float | None:
        """Its duration, if both ends are known."""
        if self.began_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.began_at).total_seconds()


def view_run(
    entry: RunEntry, began_at: datetime | None, ended_at: datetime | None, known_from: Sequence[str]
) -> RunRow:
    """Return the row of a run."""
    return RunRow(
        run=entry.run,
        command=entry.command,
        plan=entry.plan,
        plan_id=entry.plan_id,
        digest=entry.digest,
        occasion=entry.occasion,
        user=entry.user,
        machine=entry.machine,
        account=entry.account,
        began_at=began_at,
        ended_at=ended_at,
        result=entry.result or "",
        changes=entry.changes if entry.digest else None,
        done=entry.done,
        failed=entry.failed,
        tasks=entry.tasks,
        known_from=tuple(known_from),
    )
