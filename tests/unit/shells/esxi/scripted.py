"""A host's shell that answers from a script, and keeps the lines that it was given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_cfg.ports import ShellResult
from vgpu_cfg.shells.channel import Executed

NOT_FOUND = ShellResult(status=127, stderr="sh: not found\n")


@dataclass(slots=True)
class ScriptedChannel:
    """Answers by the whole command line; any other line is a command that is not there."""

    answers: Mapping[str, ShellResult] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    is_closed: bool = False

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        assert not stdin
        self.lines.append(line)
        self.times.append(timeout_seconds)
        found = self.answers.get(line, NOT_FOUND)
        return Executed(found.status, found.stdout.encode(), found.stderr.encode())

    def close(self) -> None:
        self.is_closed = True
