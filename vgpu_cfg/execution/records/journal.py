"""The journal of a run, line by line, in a file that outlives it: for audit, and for changes in flight.

vCenter is the state; losing a journal loses nothing. It holds ids, names, tasks and
vCenter's words, and never a request's contents, so that no secret gets into it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pydantic import BaseModel, ValidationError

from vgpu_cfg.changes.change import CreateVm, ReconfigureVm
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, Outcome, Report
from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, make_private_folder, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.execution.records.copies import JournalCopy, MakeCopies, no_copies, open_new
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.frozen import Frozen, Moment
from vgpu_cfg.model.runs import RunEntry
from vgpu_cfg.model.wording import as_json

FORMAT = 1
SUFFIX = ".jsonl"
MOST_BYTES = 256 << 20
"""A longer file was not written by a run: that of a thousand VMs has a few MiB."""


class JournalHeader(Frozen):
    """The header of a run: who ran it, against which vCenter, from where, and for which plan.

    `user` is the account on the machine `host`, `account` the one at vCenter. `reviewed` is the
    digest of the saved plan that the run carried out, or the rest of it. `expires` are the dates of VMs.
    Journals of version 0.1.0 have no `run`.
    """

    format: int = FORMAT
    run: str = ""
    command: str = ""
    plan: str
    plan_id: str = ""
    digest: str
    reviewed: str = ""
    server: str
    instance_uuid: str = ""
    datacenter: str = ""
    user: str = ""
    host: str = ""
    account: str = ""
    pid: int = 0
    occasion: Occasion = Occasion()
    started_at: Moment
    changes: tuple[str, ...] = ()
    expires: Mapping[str, date] = {}


@dataclass(frozen=True, slots=True)
class JournalRecord:
    """A journal read back. `report` is None where the run never came to its end."""

    path: Path
    header: JournalHeader
    events: tuple[Event, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    report: Report | None = None
    plan: Plan | None = None

    @property
    def in_flight(self) -> tuple[InFlight, ...]:
        """The changes that had begun and not ended when the journal stopped."""
        begun: dict[str, InFlight] = {}
        for event in self.events:
            if event.kind is EventKind.STARTED:
                begun[event.change_id] = InFlight(event.change_id, event.subject.name, (), event.at)
            elif event.kind is EventKind.TASK and event.task and event.change_id in begun:
                known = begun[event.change_id]
                begun[event.change_id] = InFlight(
                    known.change_id, known.subject, (*known.tasks, event.task), known.since
                )
            elif event.kind is EventKind.ENDED:
                begun.pop(event.change_id, None)
        return tuple(begun.values())


@dataclass(frozen=True, slots=True)
class InFlight:
    """A change whose end is missing from a journal; the last of `tasks` may still run in vCenter."""

    change_id: str
    subject: str
    tasks: tuple[str, ...]
    since: datetime


@dataclass(slots=True)
class Journal:
    """The journal of one run, open for writing; every line is on disk before the next thing happens.

    A disk that fails stops the journal, not the run: `problem` then says why.
    """

    path: Path
    problem: str = ""
    copies: tuple[JournalCopy, ...] = ()
    _file: IO[str] | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, folder: Path, plan: Plan, entry: RunEntry, make_copies: MakeCopies = no_copies) -> Self:
        """Open a new journal `<plan>-<digest>-<time>.jsonl` in a folder, made if need be.

        `entry` says who runs the plan; `make_copies` begins copies under a name without its ending.
        """
        stem = f"{_file_name(plan.name)}-{plan.digest}-{entry.at.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        journal = cls(folder / f"{stem}{SUFFIX}", copies=tuple(make_copies(stem)))
        try:
            make_private_folder(folder)
            journal.path, journal._file = open_new(folder, stem, PRIVATE)
        except OSError as error:
            journal._stop(error)
        header = JournalHeader(
            run=entry.run,
            command=entry.command,
            plan=plan.name,
            plan_id=entry.plan_id,
            digest=plan.digest,
            reviewed=entry.reviewed,
            server=plan.target.address,
            instance_uuid=plan.target.instance_uuid,
            datacenter=plan.target.datacenter,
            user=entry.user,
            host=entry.machine,
            account=entry.account,
            pid=os.getpid(),
            occasion=entry.occasion,
            started_at=entry.at,
            changes=tuple(change.id for change in plan.changes),
            expires={vm.name: vm.expires for vm in plan.desired.vms if vm.expires is not None},
        )
        journal._write("header", header)
        journal._write("plan", _without_contents(plan), is_whole=True)
        return journal

    def record_event(self, event: Event) -> None:
        """Write down an event; progress is left out."""
        if event.kind is not EventKind.PROGRESS:
            self._write("event", event)

    def record_rollback(self, plan: Plan) -> None:
        """Record the start of the rollback; the events that follow belong to it."""
        self._write("rollback", _without_contents(plan), is_whole=True)

    def record_report(self, report: Report) -> None:
        """Write down every outcome and then the report: the run has come to its end."""
        for outcome in report.outcomes:
            self._write("outcome", outcome)
        rollback = report.rollback
        if rollback is not None:
            rollback = rollback.model_copy(update={"changes": ()})  # they stand in a line of their own
        self._write("report", report.model_copy(update={"outcomes": (), "rollback": rollback}))

    def record_entry(self, kind: str, entry: RunEntry) -> None:
        """Inform the copies that the run began or has ended, in one self-contained line."""
        for copy in self.copies:
            copy.write(kind, entry.text)

    @property
    def problems(self) -> list[str]:
        """Why the journal, or a copy of it, is not kept."""
        return [text for text in (self.problem, *(copy.problem for copy in self.copies)) if text]

    def close(self) -> None:
        """Close the file and all copies."""
        self._close_file()
        for copy in self.copies:
            copy.close()

    def _close_file(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):  # a full disk rejects the rest of the last line again
                file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, kind: str, value: BaseModel, *, is_whole: bool = False) -> None:
        line = as_json({kind: value.model_dump(mode="json", exclude_defaults=not is_whole)})
        for copy in self.copies:
            copy.write(kind, line)
        if self._file is None:
            return
        try:
            self._file.write(line + "\n")
            self._file.flush()
        except OSError as error:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        self.problem = f"cannot write the journal: {error.strerror or error}: {self.path}"
        self._close_file()


def _without_contents(plan: Plan) -> Plan:
    """Return the plan without what its VMs are asked to hold: their settings may be secrets."""
    changes = tuple(
        change.model_copy(update={"spec": VmSpec(), "edits": ()})
        if isinstance(change, CreateVm | ReconfigureVm)
        else change
        for change in plan.changes
    )
    requested = DesiredPlan(name=plan.desired.name, vcenter=plan.desired.vcenter)
    return plan.model_copy(update={"desired": requested, "changes": changes})


def find_journals(folder: Path, plan: str) -> tuple[Path, ...]:
    """List a plan's journals, the newest first."""
    pattern = re.compile(rf"{re.escape(_file_name(plan))}-[0-9a-f]{{8}}-(\d{{8}}T\d{{6}}Z)(?:-(\d+))?\.jsonl")
    found: list[tuple[str, int, Path]] = []
    if folder.is_dir():
        for path in folder.iterdir():
            match = pattern.fullmatch(path.name)
            if match:
                found.append((match[1], int(match[2] or 1), path))
    return tuple(path for *_, path in sorted(found, reverse=True))


def read_journal(path: Path, *, with_plan: bool = True) -> JournalRecord:
    """Read a journal back; a last line that was cut off is left out.

    Without `with_plan` what takes longest to read is passed over.

    Raises DocumentError with the line where it is no journal.
    """
    try:
        lines = read_bytes(path, MOST_DATA_BYTES).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError([DocumentFault(str(path), 1, 1, f"cannot be read: {error}")]) from error
    header: JournalHeader | None = None
    plan: Plan | None = None
    report: Report | None = None
    events: list[Event] = []
    outcomes: list[Outcome] = []
    for number, line in enumerate(lines, start=1):
        if not with_plan and line.startswith('{"plan":'):
            continue
        try:
            match json.loads(line):
                case {"header": value}:
                    header = JournalHeader.model_validate(value)
                case {"plan": value}:
                    plan = Plan.model_validate(value)
                case {"rollback": _}:
                    continue  # what was undone stands in the report
                case {"event": value}:
                    events.append(Event.model_validate(value))
                case {"outcome": value}:
                    outcomes.append(Outcome.model_validate(value))
                case {"report": value}:
                    report = Report.model_validate(value)
                case other:
                    raise ValueError(f"unknown line {_keys(other)}")
        except (ValueError, ValidationError, RecursionError) as error:
            if number == len(lines) and number > 1:
                break
            fault = DocumentFault(str(path), number, 1, f"is not a journal line: {error}")
            raise DocumentError([fault]) from error
    if header is None:
        raise DocumentError([DocumentFault(str(path), 1, 1, "is not a journal: the header is missing")])
    if report is not None:
        report = report.model_copy(update={"outcomes": tuple(outcomes)})
    return JournalRecord(path, header, tuple(events), tuple(outcomes), report, plan)


def _file_name(plan: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", plan)


def _keys(value: Any) -> Iterable[str]:
    return sorted(value) if isinstance(value, Mapping) else [type(value).__name__]
