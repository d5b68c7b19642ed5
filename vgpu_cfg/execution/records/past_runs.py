"""Past runs, merged from their records: journals here and elsewhere, events.

An entry is known by the id of its run, so that a run is listed once even if several places record it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from vgpu_cfg.errors import DocumentError
from vgpu_cfg.execution.records.journal import JournalHeader, JournalRecord, read_journal
from vgpu_cfg.execution.records.run_record import ended_entry
from vgpu_cfg.model.runs import RunEntry

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
