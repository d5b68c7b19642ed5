"""The command line as a fixture, in a folder of its own on a lab with a virtual clock."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine


@pytest.fixture
def vgpu_cfg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    folder = tmp_path / "work"
    folder.mkdir()
    return CommandLine(folder, monkeypatch)
