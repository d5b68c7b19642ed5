"""Output that no program reads any more: the command ends quietly."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.command_line import CommandLine

WORDS = (
    ("plan", "plans/small.yaml"),
    ("plan", "plans/small.yaml", "--output", "json"),
    ("inventory", "--server", "lab:two-a100"),
    ("lab", "list"),
    ("--help",),
)


@pytest.mark.parametrize("words", WORDS, ids=" ".join)
@pytest.mark.parametrize("is_read", [False, True])
def test_a_closed_pipe_is_no_bug(words: tuple[str, ...], vgpu_cfg: CommandLine, *, is_read: bool) -> None:
    command = [sys.executable, "-m", "vgpu_cfg", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout is not None
        assert running.stderr is not None
        if is_read:
            assert running.stdout.read()
        running.stdout.close()
        told = running.stderr.read().decode()
        code = running.wait(timeout=120)
    assert "BrokenPipe" not in told
    assert "bug" not in told
    assert code == 0, told
