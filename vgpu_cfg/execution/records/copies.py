"""How a journal goes elsewhere as it is written, and that no share and no server delays a run by that.

A copy is written by a thread of its own. What goes wrong there ends the copy, never the run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Protocol, TypeAlias

ENTRIES = frozenset({"began", "ended"})
"""What is told of a journal besides its own lines: that the run began and has ended, each for itself."""
OPENING_SECONDS = 3.0
"""So long a run waits at most to learn that a copy cannot be begun; it goes on all the same."""
CLOSING_SECONDS = 10.0
"""So long it waits at its end for what is still to be written."""


class Sink(Protocol):
    """Where a copy goes. Every method but `close` raises OSError where it cannot be written."""

    @property
    def place(self) -> str:
        """What to call it."""
        ...

    def open(self) -> None:
        """Begin."""
        ...

    def write(self, kind: str, line: str) -> None:
        """Take a line of the journal; `kind` says what it holds."""
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
            self._report("it does not answer")

    def write(self, kind: str, line: str) -> None:
        """Have a line written, soon."""
        if not self.problem:
            self._lines.put((kind, line))

    def close(self) -> None:
        """Have all of it written, and end."""
        self._lines.put(None)
        self._thread.join(CLOSING_SECONDS if not self.problem else 0)
        if self._thread.is_alive() and not self.problem:
            self._report("not all of it could be written in time")

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
        self.problem = f"no copy of the journal is kept in {self._sink.place}: {reason}"


MakeCopies: TypeAlias = Callable[[str], Sequence[JournalCopy]]
"""What begins the copies of a journal, by the name of its file without the ending."""


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
