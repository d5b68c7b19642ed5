"""The command line as a fixture, and a lab behind HTTPS for it to talk to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.soap.server import LabServer


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    folder = tmp_path / "work"
    folder.mkdir()
    return CommandLine(folder, monkeypatch)


Serve = Callable[[str], LabServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Return what serves an estate over HTTPS, in memory and in this process, until the test ends."""
    with ExitStack() as running:

        def start(estate: str) -> LabServer:
            return running.enter_context(LabServer(open_lab(estate, clock=VirtualClock())))

        yield start
