"""What a run did, line by line, in a file that outlives it: for audit, and for what was in flight.

vCenter is the state; losing a journal loses nothing. It holds ids, names, tasks and
vCenter's words, and never a request's contents, so that no secret gets into it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from pydantic import BaseModel, ValidationError

from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan.change import CreateVm, Plan, ReconfigureVm
from vgpu_cfg.model.plan.report import Event, EventKind, Outcome, Report
from vgpu_cfg.model.plan.vm_spec import VmSpec

FORMAT = 1
SUFFIX = ".jsonl"


class JournalHeader(Frozen):
    """Who ran what, against which vCenter, from where."""

    format: int = FORMAT
    plan: str
    digest: str
    server: str
    instance_uuid: str = ""
    datacenter: str = ""
    user: str = ""
    host: str = ""
    pid: int = 0
    started_at: datetime
    changes: tuple[str, ...] = ()


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
        """What had begun and not ended when the journal stopped."""
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
    """A change whose end a journal does not tell; the last of `tasks` may still run in vCenter."""

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
    _file: IO[str] | None = field(default=None, repr=False)

    @classmethod
    def begin(cls, folder: Path, plan: Plan, *, now: datetime, user: str = "", host: str = "") -> Self:
        """Open a new journal `<plan>-<digest>-<time>.jsonl` in a folder, made if need be."""
        stem = f"{_file_name(plan.name)}-{plan.digest}-{now.astimezone(UTC):%Y%m%dT%H%M%SZ}"
        journal = cls(folder / f"{stem}{SUFFIX}")
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            journal._open(stem)
        except OSError as error:
            journal._stop(error)
        header = JournalHeader(
            plan=plan.name,
            digest=plan.digest,
            server=plan.target.address,
            instance_uuid=plan.target.instance_uuid,
            datacenter=plan.target.datacenter,
            user=user,
            host=host,
            pid=os.getpid(),
            started_at=now,
            changes=tuple(change.id for change in plan.changes),
        )
        journal._write("header", header)
        journal._write("plan", _without_contents(plan), is_whole=True)
        return journal

    def record_event(self, event: Event) -> None:
        """Write down an event; progress is left out."""
        if event.kind is not EventKind.PROGRESS:
            self._write("event", event)

    def record_report(self, report: Report) -> None:
        """Write down every outcome and then the report: the run has come to its end."""
        for outcome in report.outcomes:
            self._write("outcome", outcome)
        self._write("report", report.model_copy(update={"outcomes": ()}))

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open(self, stem: str) -> None:
        for number in range(1, 1000):
            name = f"{stem}{SUFFIX}" if number == 1 else f"{stem}-{number}{SUFFIX}"
            self.path = self.path.with_name(name)
            try:
                handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                continue
            self._file = os.fdopen(handle, "w", encoding="utf-8")
            return

    def _write(self, kind: str, value: BaseModel, *, is_whole: bool = False) -> None:
        if self._file is None:
            return
        try:
            content = value.model_dump(mode="json", exclude_defaults=not is_whole)
            self._file.write(json.dumps({kind: content}) + "\n")
            self._file.flush()
        except OSError as error:
            self._stop(error)

    def _stop(self, error: OSError) -> None:
        self.problem = f"no journal is kept: {error.strerror or error}: {self.path}"
        self.close()


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


def read_journal(path: Path) -> JournalRecord:
    """Read a journal back; a last line that was cut off is left out.

    Raises DocumentError with the line where it is no journal.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise DocumentError([DocumentFault(str(path), 1, 1, f"cannot be read: {error}")]) from error
    header: JournalHeader | None = None
    plan: Plan | None = None
    report: Report | None = None
    events: list[Event] = []
    outcomes: list[Outcome] = []
    for number, line in enumerate(lines, start=1):
        try:
            match json.loads(line):
                case {"header": value}:
                    header = JournalHeader.model_validate(value)
                case {"plan": value}:
                    plan = Plan.model_validate(value)
                case {"event": value}:
                    events.append(Event.model_validate(value))
                case {"outcome": value}:
                    outcomes.append(Outcome.model_validate(value))
                case {"report": value}:
                    report = Report.model_validate(value)
                case other:
                    raise ValueError(f"unknown line {_keys(other)}")
        except (ValueError, ValidationError) as error:
            if number == len(lines) and number > 1:
                break
            fault = DocumentFault(str(path), number, 1, f"is no line of a journal: {error}")
            raise DocumentError([fault]) from error
    if header is None:
        raise DocumentError([DocumentFault(str(path), 1, 1, "is no journal: it has no header")])
    if report is not None:
        report = report.model_copy(update={"outcomes": tuple(outcomes)})
    return JournalRecord(path, header, tuple(events), tuple(outcomes), report, plan)


def _file_name(plan: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", plan)


def _keys(value: Any) -> Iterable[str]:
    return sorted(value) if isinstance(value, Mapping) else [type(value).__name__]
