"""The seam between what a host is asked and how the words reach it: one command line, one result."""

from __future__ import annotations

from typing import Protocol

from vgpu_cfg.ports import ShellResult


class CommandChannel(Protocol):
    """An open way to a host's shell. Every method raises `HostShellError`."""

    def execute(self, line: str, timeout_seconds: float) -> ShellResult:
        """Run one command line, already quoted for a POSIX shell, and wait for its end."""
        ...

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        ...
