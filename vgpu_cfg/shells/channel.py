"""The seam between what a machine is asked and how the words reach it: a line, bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vgpu_cfg.ports import ShellResult


@dataclass(frozen=True, slots=True)
class Executed:
    """What a command line left: its exit status and, as bytes, what it printed."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def as_text(self) -> ShellResult:
        """The same, with what it printed read as UTF-8; other bytes are replaced."""
        return ShellResult(
            status=self.status,
            stdout=self.stdout.decode("utf-8", errors="replace"),
            stderr=self.stderr.decode("utf-8", errors="replace"),
        )


class Channel(Protocol):
    """An open way to the POSIX shell of a host or a guest.

    Its methods raise `HostShellError` or `GuestError`; that of a guest never names the line.
    """

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line, already quoted for a POSIX shell, and wait for its end."""
        ...

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        ...


class GuestChannel(Channel, Protocol):
    """A channel into a guest, where work goes on by itself."""

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Begin a command that goes on when nobody listens; `prefix` gives it root's rights."""
        ...
