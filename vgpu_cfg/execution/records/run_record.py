"""The record of a run in all its places (journal, copies, vCenter's events), and past runs read from them.

Journal and copies have the entry of its beginning before its first change, and that of its end after the
last. vCenter's events have the beginning once the run has lasted until a heartbeat, or is interrupted: until
then its lock shows it, and for a short run its end. Write errors are reported and end nothing.

The user and the machine of a run are recorded as far as the operating system knows them. An entry is known by
the ID of its run, so that a past run is listed once even if several places record it.
"""

from __future__ import annotations

import getpass
import re
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Report
from vgpu_cfg.errors import DocumentError, NotPermitted, VCenterError
from vgpu_cfg.execution.records.copies import MakeCopies
from vgpu_cfg.execution.records.journal import Journal, JournalHeader, JournalRecord, read_journal
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


_NAME = re.compile(r"-(\d{8}T\d{6}Z)(?:-\d+)?\.jsonl$")


@dataclass(frozen=True, slots=True)
class PastRun:
    """One run: its most complete entry, and the places that record it.

    `ended_at` is None if no end time recorded: it still runs, or it was interrupted. `journal` is where its
    steps can be read, None where no journal of it is within reach.
    """

    entry: RunEntry
    began_at: datetime | None
    ended_at: datetime | None
    known_from: tuple[str, ...]
    journal: Path | None = None

    @property
    def id(self) -> str:
        """The run's id."""
        return self.entry.run


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are asked for: of one vCenter, of one plan, since a moment, the newest of them.

    A plan is identified by its id if both have one, else by its name; "" means any.
    """

    instance_uuid: str = ""
    address: str = ""
    plan: str = ""
    plan_id: str = ""
    since: datetime | None = None
    most: int | None = None

    def means(self, run: PastRun) -> bool:
        """Whether a run is of the plan, and not too old."""
        entry = run.entry
        if self.since is not None and max(_since(run), run.ended_at or _since(run)) < self.since:
            return False
        if self.plan_id and entry.plan_id:
            return entry.plan_id == self.plan_id
        return not self.plan or entry.plan == self.plan

    def is_at(self, header: JournalHeader) -> bool:
        """Whether a journal is of the vCenter."""
        if self.instance_uuid and header.instance_uuid:
            return header.instance_uuid == self.instance_uuid
        return not self.address or header.server == self.address


@dataclass(frozen=True, slots=True)
class FoundJournals:
    """Runs of the journals in a folder, and of which files nothing could be read."""

    runs: tuple[PastRun, ...]
    unread: tuple[Path, ...]


def runs_of_journals(folder: Path, place: str, wanted: Wanted) -> FoundJournals:
    """Return the runs that the journals of a folder record, newest first.

    Raises OSError where the folder cannot be listed; one that is not there has none.
    """
    runs: list[PastRun] = []
    unread: list[Path] = []
    for path in _newest_first(folder):
        if wanted.most is not None and len(runs) >= wanted.most:
            break
        try:
            record = read_journal(path, with_plan=False)
        except DocumentError:
            unread.append(path)
            continue
        run = _run_of(record, place)
        if wanted.is_at(record.header) and wanted.means(run):
            runs.append(run)
        elif wanted.since is not None and record.header.started_at < wanted.since:
            break
    return FoundJournals(tuple(runs), tuple(unread))


def _newest_first(folder: Path) -> list[Path]:
    """List the journals of a folder by the time in their names."""
    found = (
        (match[1], path)
        for path in (folder.iterdir() if folder.exists() else ())
        if (match := _NAME.search(path.name)) is not None
    )
    return [path for _, path in sorted(found, reverse=True)]


def runs_of_entries(entries: Iterable[RunEntry], place: str) -> Iterator[PastRun]:
    """Return the content of single entries: a beginning, or an end, with the beginning or without."""
    for entry in entries:
        is_end = entry.result is not None
        began_at, ended_at = (entry.began_at, entry.at) if is_end else (entry.at, None)
        yield PastRun(entry, began_at, ended_at, (place,))


def joined(found: Iterable[PastRun]) -> list[PastRun]:
    """Return each run once, the newest first."""
    runs: dict[str, PastRun] = {}
    for run in found:
        known = runs.get(run.id)
        runs[run.id] = run if known is None else _both(known, run)
    return sorted(runs.values(), key=lambda run: (_since(run), run.id), reverse=True)


def _both(one: PastRun, other: PastRun) -> PastRun:
    """Return the merged entry of a run from two places: an end outranks a beginning, a lock ranks last."""
    more, less = (one, other) if _weight(one) >= _weight(other) else (other, one)
    return replace(
        one,
        entry=more.entry,
        began_at=more.began_at or less.began_at,
        ended_at=one.ended_at or other.ended_at,
        known_from=tuple(dict.fromkeys((*one.known_from, *other.known_from))),
        journal=one.journal or other.journal,
    )


def _weight(run: PastRun) -> tuple[bool, bool]:
    return run.entry.result is not None, bool(run.entry.digest)


def _since(run: PastRun) -> datetime:
    return run.began_at or run.ended_at or run.entry.at


def _run_of(record: JournalRecord, place: str) -> PastRun:
    header, report = record.header, record.report
    entry = RunEntry(
        run=header.run or record.path.stem,
        at=header.started_at,
        command=header.command,
        plan=header.plan,
        plan_id=header.plan_id,
        digest=header.digest,
        occasion=header.occasion,
        user=header.user,
        machine=header.host,
        account=header.account,
        changes=len(header.changes),
    )
    ended_at = None
    if report is not None:
        entry = ended_entry(entry, report)
        ended_at = max((event.at for event in record.events), default=header.started_at)
    return PastRun(entry, header.started_at, ended_at, (place,), record.path)
