"""What a tool of the host's shell leaves behind: a status and two texts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host


@dataclass(frozen=True, slots=True)
class Reply:
    """The exit status, and what went to either stream."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""


Tool = Callable[["Simulation", Host, Sequence[str]], Reply]
"""`tool(lab, host, arguments)`, without the tool's own name."""


def say(*lines: str, status: int = 0) -> Reply:
    """Return a reply of whole lines on stdout."""
    return Reply(status, "".join(f"{line}\n" for line in lines))


def complain(*lines: str, status: int = 1) -> Reply:
    """Return a reply of whole lines on stderr."""
    return Reply(status, stderr="".join(f"{line}\n" for line in lines))
