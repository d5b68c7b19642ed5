"""The seam between what a guest is asked and how the words reach it: a line, bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Executed:
    """What a command line left: its exit status and, as bytes, what it printed."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""


class Channel(Protocol):
    """An open way to a guest's POSIX shell. Its methods raise `GuestError`, and never name the line."""

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line, already quoted for a POSIX shell, and wait for its end."""
        ...

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Begin a command that goes on when nobody listens; `prefix` gives it root's rights."""
        ...

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        ...
