"""Records of a run outside its journal: copies of the journal, and the marks on hosts during work.

A copy is written by a thread of its own, without delaying the run. An error there ends the copy, never the
run.

A mark holds the owner of a host, and the remaining steps. It is all that outlives a run. It is written before
the step that it describes, and cleared once nothing remains: no maintenance mode, no open shell, no setting
that waits for a restart.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Protocol, TypeAlias

from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.errors import StalePlan
from vgpu_cfg.execution.records.lock import RunLocks
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import LockName
from vgpu_cfg.model.observed.host_facts import HostAttribute, HostFacts, HostMark, is_same_boot
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.ports import Clock, HostWriter

ENTRIES = frozenset({"began", "ended"})
"""The entries of a journal in addition to its lines: that the run began and has ended, one line each."""
OPENING_SECONDS = 3.0
"""So long a run waits at most to learn that a copy cannot be begun; it goes on all the same."""
CLOSING_SECONDS = 10.0
"""Seconds to wait at the end of the run for pending writes."""


class Sink(Protocol):
    """A destination of a copy. Every method but `close` raises OSError where it cannot be written."""

    @property
    def place(self) -> str:
        """Its name."""
        ...

    def open(self) -> None:
        """Begin."""
        ...

    def write(self, kind: str, line: str) -> None:
        """Write a line of the journal; `kind` is the kind of its content."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...


class FolderSink:
    """A file in a folder that others read, too: with the rights that the umask leaves.

    The folder must be there: one that is missing is a share that is not mounted.
    """

    def __init__(self, folder: Path, stem: str) -> None:
        self._folder = folder
        self._stem = stem
        self._file: IO[str] | None = None

    @property
    def place(self) -> str:
        """The folder."""
        return str(self._folder)

    def open(self) -> None:
        """Make the file."""
        _, self._file = open_new(self._folder, self._stem, 0o666)

    def write(self, kind: str, line: str) -> None:
        """Write a line; it is handed to the system before the next."""
        if self._file is not None and kind not in ENTRIES:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class JournalCopy:
    """One copy under way. `problem` says why it is not kept, "" while it is."""

    def __init__(self, sink: Sink) -> None:
        self.problem = ""
        self._sink = sink
        self._lines: SimpleQueue[tuple[str, str] | None] = SimpleQueue()
        self._begun = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        if not self._begun.wait(OPENING_SECONDS):
            self._report("no response")

    def write(self, kind: str, line: str) -> None:
        """Have a line written, soon."""
        if not self.problem:
            self._lines.put((kind, line))

    def close(self) -> None:
        """Have all of it written, and end."""
        self._lines.put(None)
        self._thread.join(CLOSING_SECONDS if not self.problem else 0)
        if self._thread.is_alive() and not self.problem:
            self._report("the copy was not completed in time")

    def _run(self) -> None:
        try:
            try:
                self._sink.open()
            finally:
                self._begun.set()
            while (item := self._lines.get()) is not None:
                self._sink.write(*item)
            self._sink.close()
        except OSError as error:
            self._report(error.strerror or str(error))

    def _report(self, reason: str) -> None:
        self.problem = f"cannot copy the journal to {self._sink.place}: {reason}"


MakeCopies: TypeAlias = Callable[[str], Sequence[JournalCopy]]
"""The function that starts the copies of a journal, by the name of its file without the ending."""


def no_copies(_stem: str) -> Sequence[JournalCopy]:
    """Keep a journal on this machine alone."""
    return ()


def open_new(folder: Path, stem: str, mode: int) -> tuple[Path, IO[str]]:
    """Make a journal's file under a name that is not taken, and open it. Raises OSError."""
    number = 1
    while True:
        path = folder / (f"{stem}.jsonl" if number == 1 else f"{stem}-{number}.jsonl")
        try:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            number += 1
            continue
        return path, os.fdopen(handle, "w", encoding="utf-8")


@dataclass(slots=True)
class HostMarks:
    """The marks of a plan's hosts, as last read or written. `names` maps moids to names, for messages."""

    plan: PlanIdentity
    writer: HostWriter
    clock: Clock
    locks: RunLocks
    names: dict[str, str] = field(default_factory=dict)
    _known: dict[str, HostMark | None] = field(default_factory=dict)

    def take(self, host: Host, facts: HostFacts) -> HostMark | None:
        """Remember the reading of a host, and return this plan's mark on it, if any.

        Raises StalePlan where the mark is another plan's: that one works there, or broke off there.
        """
        self.names[host.moid] = host.name
        mark = facts.mark
        if mark is not None and not mark.is_of(self.plan):
            raise StalePlan(
                f"plan {mark.plan} has been working on {host.name} since {mark.since:%Y-%m-%d %H:%M}"
                + (f": {mark.reason}" if mark.reason else ""),
                subject=host.name,
                remedy=mark.way_on(self.plan),
            )
        self._known[host.moid] = mark
        return mark

    def own(self, host_moid: str) -> HostMark | None:
        """Return this plan's mark on a host, as last read or written."""
        return self._known.get(host_moid)

    def keep(self, host_moid: str, **fields: object) -> None:
        """Write the mark with some fields changed; it is cleared if no steps remain.

        Takes one call, or none if the mark is already so. The written mark is this run's, whichever run of
        the plan began it: it has the host's lock. Raises VCenterError, and LockLost where it has not.
        """
        before = self._known.get(host_moid)
        after = (before or HostMark(plan=self.plan.name, id=self.plan.id, since=self.clock.now())).model_copy(
            update=fields
        )
        if _owes_nothing(after):
            self.clear(host_moid)
        elif after != before:
            self.check(host_moid)
            after = after.model_copy(update={"run": self.locks.holder.run})
            self.writer.set_host_attribute(host_moid, HostAttribute.MARK, after.text)
            self._known[host_moid] = after

    def clear(self, host_moid: str) -> None:
        """Remove the mark, if there is one."""
        if self._known.get(host_moid) is not None:
            self.check(host_moid)
            self.writer.set_host_attribute(host_moid, HostAttribute.MARK, None)
        self._known[host_moid] = None

    def check(self, host_moid: str) -> None:
        """See that the host is this run's to write to: marks and services are cleared by who holds its lock.

        Raises LockLost.
        """
        self.locks.check(LockName(kind="host", key=host_moid, label=self.names.get(host_moid, "")))

    def waits_since(self, host_moid: str, boot_time: datetime | None, *targets: SettingTarget) -> None:
        """Note that settings are about to be written and wait for a restart of a host that booted then."""
        mark = self._known.get(host_moid)
        waiting = dict(mark.waiting) if mark is not None else {}
        self.keep(host_moid, waiting={**waiting, **{target.id: boot_time for target in targets}})

    def waits_no_more(self, host_moid: str, *targets: SettingTarget) -> None:
        """Note that settings have had their restart, or were never written."""
        mark = self._known.get(host_moid)
        if mark is not None:
            gone = {target.id for target in targets}
            left = {name: since for name, since in mark.waiting.items() if name not in gone}
            self.keep(host_moid, waiting=left)

    def items(self) -> tuple[tuple[str, str, HostMark], ...]:
        """List (moid, name, mark) of every host that carries this plan's mark now."""
        return tuple(
            (moid, self.names.get(moid, moid), mark) for moid, mark in self._known.items() if mark is not None
        )


def is_waiting(mark: HostMark | None, target: SettingTarget, boot_time: datetime | None) -> bool:
    """Whether a setting was written and the host has not booted since.

    If a boot time is unknown both before and now, it counts as the same boot.
    """
    return mark is not None and target.id in mark.waiting and is_same_boot(mark.waiting[target.id], boot_time)


def _owes_nothing(mark: HostMark) -> bool:
    return not (mark.maintenance or mark.opened_ssh or mark.waiting or mark.reason)
