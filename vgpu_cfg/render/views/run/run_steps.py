"""Runs as rows: who ran what and when, the result of each host, step and VM, and the verdict on the whole."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vgpu_cfg.changes.base import Restart, of_kind
from vgpu_cfg.changes.change import Change, EnterMaintenance, StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import (
    Event,
    EventKind,
    LeftBehind,
    LeftState,
    Outcome,
    OutcomeStatus,
    Report,
    SettingReading,
)
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.render.layout.lines import fold_alike
from vgpu_cfg.render.views.status import VmRow, gpus_by_vm, make_row, staged_status

_NOT_ENDED = "not finished"
_NOT_BEGUN = "not started"
_WORDS = {OutcomeStatus.NOT_NEEDED: "already done", OutcomeStatus.FAILED: "FAILED"}
NO_END = "end unknown"
"""The result of a run that goes on, or was interrupted."""


@dataclass(frozen=True, slots=True)
class HostResult:
    """The result of one host.

    `state` is "ready", "waiting", "failed", "skipped" or "unchanged"; `standing` is the reason why the host
    is still in maintenance mode, and is empty if it is not. `readings` are the last of each setting.
    """

    name: str
    moid: str
    state: str
    set: int
    reboots: int
    cold_boots: int
    standing: str
    seconds: float
    readings: tuple[SettingReading, ...]

    @property
    def unsettled(self) -> tuple[SettingReading, ...]:
        """The settings that were read back otherwise than wanted, or wait for a restart."""
        return tuple(one for one in self.readings if not is_settled(one))


def is_settled(reading: SettingReading) -> bool:
    """Whether a reading shows that the setting is as wanted, and in force."""
    return reading.configured is not None and not (reading.waits_for or reading.differs)


def host_rows(plan: Plan, report: Report, after: Inventory | None = None) -> tuple[HostResult, ...]:
    """Make a row for each host that the run was about, in the plan's order."""
    outcomes = {outcome.change_id: outcome for outcome in report.outcomes}
    by_host: dict[str, list[tuple[Change, Outcome]]] = {}
    for change in plan.changes:
        outcome = outcomes.get(change.id)
        if change.subject.kind == "host" and outcome is not None:
            by_host.setdefault(change.subject.name, []).append((change, outcome))
    waiting = set(report.waiting_for)
    left = {one.name: one.why for one in report.left_behind if one.state == LeftState.DOWN}
    rows = (_host_result(name, steps, waiting, after) for name, steps in by_host.items())
    return tuple(
        replace(row, standing=left[row.name])
        if row.name in left and not row.standing and not _is_back(row.moid, after)
        else row
        for row in rows
    )


def _is_back(moid: str, after: Inventory | None) -> bool:
    """Whether a reading after the run shows a host out of maintenance mode."""
    host = after.host_by_moid.get(moid) if after is not None else None
    return host is not None and not host.is_in_maintenance_mode


def other_left_behind(report: Report, rows: Sequence[HostResult]) -> tuple[str, ...]:
    """Return the remains of a run that no row already shows."""
    down = {row.name for row in rows if row.standing}
    return left_lines(
        one for one in report.left_behind if one.state != LeftState.DOWN or one.name not in down
    )


def left_lines(remains: Iterable[LeftBehind]) -> tuple[str, ...]:
    """Return the remains in words, once for objects that are left alike."""
    return tuple(fold_alike((one.name, str(one).removeprefix(one.name).lstrip(": ")) for one in remains))


def _host_result(
    name: str, steps: Sequence[tuple[Change, Outcome]], waiting: set[str], after: Inventory | None
) -> HostResult:
    moid = next((change.host_moid for change, _ in steps if change.host_moid), "")
    readings: dict[tuple[str, str], SettingReading] = {}
    for _, outcome in steps:
        readings |= {(one.setting, one.device): one for one in outcome.readings}
    began = [outcome.started_at for _, outcome in steps if outcome.started_at is not None]
    ended = [outcome.ended_at for _, outcome in steps if outcome.ended_at is not None]
    return HostResult(
        name=name,
        moid=moid,
        state=_state(steps, waiting),
        set=len(_set(steps)),
        reboots=sum(change.face.restart is Restart.REBOOT for change in _done(steps)),
        cold_boots=_cold_boots(steps),
        standing=_standing(steps, waiting, moid, after),
        seconds=(max(ended) - min(began)).total_seconds() if began and ended else 0.0,
        readings=tuple(readings.values()),
    )


def _done(steps: Iterable[tuple[Change, Outcome]]) -> list[Change]:
    return [change for change, outcome in steps if outcome.status is OutcomeStatus.DONE]


def _set(steps: Sequence[tuple[Change, Outcome]]) -> set[str]:
    """Return the settings that were written in this run."""
    return {target.id for change in _done(steps) for target in change.writes}


def _cold_boots(steps: Sequence[tuple[Change, Outcome]]) -> int:
    """Count the cold boots that were shown to be done: the manual step after a shutdown."""
    downs = {change.id for change, _ in steps if change.face.leaves_off}
    cold_boots = [change for change in _done(steps) if change.face.restart is Restart.COLD_BOOT]
    by_bmc = sum(not change.face.leaves_off for change in cold_boots)
    return by_bmc + sum(
        change.face.is_by_hand and bool(downs & {*change.needs}) and outcome.status.is_in_place
        for change, outcome in steps
    )


def _state(steps: Sequence[tuple[Change, Outcome]], waiting: set[str]) -> str:
    found = {outcome.status for _, outcome in steps}
    if OutcomeStatus.FAILED in found:
        return "failed"
    if any(change.id in waiting for change, _ in steps):
        return "waiting"
    if OutcomeStatus.SKIPPED in found:
        return "skipped"
    return "ready" if OutcomeStatus.DONE in found else "unchanged"


def _standing(
    steps: Sequence[tuple[Change, Outcome]], waiting: set[str], moid: str, after: Inventory | None
) -> str:
    """Return why a host is still in maintenance mode: by a reading after the run, else by the steps done."""
    has_gone = next((ended.status.is_in_place for change, ended in steps if change.face.takes_away), False)
    is_back = next((ended.status.is_in_place for change, ended in steps if change.face.brings_back), False)
    is_down = has_gone and not is_back
    host = after.host_by_moid.get(moid) if after is not None else None
    if host is not None:
        is_down = host.is_in_maintenance_mode
    if not is_down:
        return ""
    for change, outcome in steps:
        if outcome.status is OutcomeStatus.FAILED:
            return f"{change.id} failed"
        if change.id in waiting:
            return f"waiting for the manual step {change.id!r}"
    return next(
        (outcome.message for _, outcome in steps if outcome.status is OutcomeStatus.SKIPPED),
        "another user keeps it in maintenance mode",
    )


def reading_text(reading: SettingReading) -> str:
    """Return the values of a setting: "ats TRUE", "ats TRUE, in force FALSE: waits for a reboot"."""
    name = f"{reading.setting} {reading.device}".rstrip()
    if reading.configured is None:
        return f"{name}: expected {reading.wanted}, but it could not be read"
    if reading.differs:
        return f"{name} is {reading.configured}, expected {reading.wanted}"
    words = f"{name} {reading.configured}"
    if reading.runtime not in (None, reading.configured):
        words += f", active {reading.runtime}"
    return f"{words}: pending {reading.waits_for}" if reading.waits_for else words


def standing_text(plan: Plan, report: Report, rows: Sequence[HostResult]) -> str:
    """Say which hosts are still in maintenance mode and why, and whether SSH was closed again."""
    if not rows:
        return ""
    standing = [f"{row.name} ({row.standing})" for row in rows if row.standing]
    is_taken = any(True for _ in of_kind(plan.changes, EnterMaintenance))
    words = []
    if standing:
        words.append(f"In maintenance mode: {'; '.join(standing)}.")
    elif is_taken:
        words.append("No host in maintenance mode.")
    opens = any(entry.access.ssh == "open-and-close" for entry in plan.desired.hosts)
    if opens and not any(one.state == LeftState.SSH_RUNS for one in report.left_behind):
        words.append("SSH services that this run started have been stopped.")
    return " ".join(words)


def host_result_counts(plan: Plan, report: Report) -> list[str]:
    """Count the changes to hosts, in words; preparatory steps, like maintenance mode, are left out."""
    rows = host_rows(plan, report)
    counts = (
        (sum(row.set for row in rows), "setting"),
        (sum(row.reboots for row in rows), "reboot"),
        (sum(row.cold_boots for row in rows), "cold boot"),
    )
    return [counted(number, noun) for number, noun in counts if number]


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
    words = [f"{number} {word.replace('*', 's' * (number != 1))}" for word, number in counts.items()]
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
