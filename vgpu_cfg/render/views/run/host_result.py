"""The results of a run's hosts: values set and read back, number of restarts, and hosts that are down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.base import Restart, of_kind
from vgpu_cfg.changes.change import Change, EnterMaintenance
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import LeftBehind, LeftState, Outcome, OutcomeStatus, Report, SettingReading
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import fold_alike


@dataclass(frozen=True, slots=True)
class HostRow:
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


def host_rows(plan: Plan, report: Report, after: Inventory | None = None) -> tuple[HostRow, ...]:
    """Make a row for each host that the run was about, in the plan's order."""
    outcomes = {outcome.change_id: outcome for outcome in report.outcomes}
    by_host: dict[str, list[tuple[Change, Outcome]]] = {}
    for change in plan.changes:
        outcome = outcomes.get(change.id)
        if change.subject.kind == "host" and outcome is not None:
            by_host.setdefault(change.subject.name, []).append((change, outcome))
    waiting = set(report.waiting_for)
    left = {one.name: one.why for one in report.left_behind if one.state == LeftState.DOWN}
    rows = (_row(name, steps, waiting, after) for name, steps in by_host.items())
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


def other_left_behind(report: Report, rows: Sequence[HostRow]) -> tuple[str, ...]:
    """Return the remains of a run that no row already shows."""
    down = {row.name for row in rows if row.standing}
    return left_lines(
        one for one in report.left_behind if one.state != LeftState.DOWN or one.name not in down
    )


def left_lines(remains: Iterable[LeftBehind]) -> tuple[str, ...]:
    """Return the remains in words, once for objects that are left alike."""
    return tuple(fold_alike((one.name, str(one).removeprefix(one.name).lstrip(": ")) for one in remains))


def _row(
    name: str, steps: Sequence[tuple[Change, Outcome]], waiting: set[str], after: Inventory | None
) -> HostRow:
    moid = next((change.host_moid for change, _ in steps if change.host_moid), "")
    readings: dict[tuple[str, str], SettingReading] = {}
    for _, outcome in steps:
        readings |= {(one.setting, one.device): one for one in outcome.readings}
    began = [outcome.started_at for _, outcome in steps if outcome.started_at is not None]
    ended = [outcome.ended_at for _, outcome in steps if outcome.ended_at is not None]
    return HostRow(
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


def standing_text(plan: Plan, report: Report, rows: Sequence[HostRow]) -> str:
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
        words.append("SSH services that were started have been stopped again.")
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
