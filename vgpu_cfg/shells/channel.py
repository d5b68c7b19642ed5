"""The channel to a machine: a command line, bytes in, bytes out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from vgpu_cfg.ports import ShellResult


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a command line: its exit status and, as bytes, its output."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def as_text(self) -> ShellResult:
        """The same, with the output read as UTF-8; other bytes are replaced."""
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
    """A channel into a guest, which can run background work."""

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Start a background command that outlives the connection; `prefix` gives it root's rights."""
        ...
