"""The record of a run in all its places: journal, copies, and vCenter's events.

Journal and copies have the entry of its beginning before its first change, and that of its end after the
last. vCenter's events have the beginning once the run has lasted until a heartbeat, or is interrupted: until
then its lock shows it, and for a short run its end. Write errors are reported and end nothing.

The user and the machine of a run, as far as the operating system knows.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report
from vgpu_cfg.errors import NotPermitted, VCenterError
from vgpu_cfg.execution.records.copies import MakeCopies
from vgpu_cfg.execution.records.journal import Journal
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.ports import Clock, RunLog

_LONGEST_NAME = 64


@dataclass(frozen=True, slots=True)
class RunPlaces:
    """The places of a run's record: the folder of this machine, copies of the journal, vCenter.

    `datacenter_moid` is the datacenter of vCenter's entries, None for its root folder.
    """

    folder: Path
    make_copies: MakeCopies
    log: RunLog
    datacenter_moid: str | None = None


@dataclass(slots=True)
class RunRecord:
    """The records of one run, open for writing."""

    journal: Journal
    _begun: RunEntry
    _places: RunPlaces
    _clock: Clock
    _say: Callable[[str], None]
    _may_log: bool = True
    _is_logged: bool = False

    def end(self, report: Report) -> Report:
        """Write down what became of the plan, and that the run is over; return the report with its id."""
        report = report.model_copy(update={"run": self._begun.run, "occasion": self._begun.occasion})
        self.journal.record_report(report)
        ended = ended_entry(self._begun, report).model_copy(update={"at": self._clock.now()})
        self.journal.record_entry("ended", ended)
        self._log("ended", ended)
        return report

    def begin(self, locks: RunLocks) -> None:
        """Record that the run begins; vCenter's events get it with the next heartbeat of its locks."""
        words = (part for part in ("vgpu-cfg", self._begun.run, self._begun.occasion.change) if part)
        self._places.log.name_calls(re.sub(r"[^A-Za-z0-9._-]", "_", "-".join(words))[:_LONGEST_NAME])
        self.journal.record_entry("began", self._begun)
        locks.at_next_beat(self.log_beginning)

    def log_beginning(self) -> None:
        """Add the run's beginning to vCenter's events, unless they already have it."""
        if not self._is_logged:
            late = (self._clock.now() - self._begun.at).total_seconds()
            self._log("began", self._begun.model_copy(update={"late_seconds": late}))

    def _log(self, kind: str, entry: RunEntry) -> None:
        self._is_logged = True
        if not self._may_log:
            return
        try:
            self._places.log.write(entry.text, self._places.datacenter_moid)
        except VCenterError as error:
            self._may_log = not isinstance(error, NotPermitted)
            self._say(f"vCenter has no event showing that this run {kind}: {error.message}")


@contextmanager
def recorded(
    plan: Plan, entry: RunEntry, places: RunPlaces, locks: RunLocks, clock: Clock, say: Callable[[str], None]
) -> Iterator[RunRecord]:
    """Write a run down for the length of a block, which calls `end` with its report.

    `entry` says who runs what, `locks` are the run's own. A block that is left without that leaves a run that
    began and has no end.
    """
    told: set[str] = set()

    def tell_problems(journal: Journal) -> None:
        for problem in journal.problems:
            if problem not in told:
                told.add(problem)
                say(problem)

    entry = entry.model_copy(
        update={
            "plan": plan.name,
            "plan_id": plan.desired.id,
            "digest": plan.digest,
            "changes": len(plan.changes),
        }
    )
    with Journal.begin(places.folder, plan, entry, places.make_copies) as journal:
        tell_problems(journal)
        record = RunRecord(journal, entry, places, clock, say)
        record.begin(locks)
        try:
            yield record
        finally:
            record.log_beginning()
    tell_problems(journal)


def ended_entry(begun: RunEntry, report: Report) -> RunEntry:
    """Return the entry of a run's end, but for its time."""
    return begun.model_copy(
        update={
            "result": result_of(report),
            "done": sum(outcome.status.is_in_place for outcome in report.outcomes),
            "failed": len(report.failed),
            "tasks": report.tasks,
            "began_at": begun.at,
        }
    )


def result_of(report: Report) -> RunResult:
    """Say in a word how a run came to its end."""
    if report.is_interrupted or (report.rollback is not None and report.rollback.is_interrupted):
        return RunResult.STOPPED
    if report.has_failed:
        return RunResult.FAILED
    return RunResult.WAITING if report.waiting_for or report.put_off else RunResult.DONE


def this_user() -> str:
    """Return the account on this machine."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


def this_machine() -> str:
    """Return the machine's name."""
    return socket.gethostname()
