"""Output without a reader, or on a full disk: the command finishes, and reports what was lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine

WORDS = (
    ("plan", "plans/small.yaml"),
    ("plan", "plans/small.yaml", "--output", "json"),
    ("lab", "list"),
    ("--help",),
)


@pytest.mark.sampled(4)
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


def without_room(*words: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose standard output lies on a full disk."""
    command = [sys.executable, "-m", "vgpu_cfg", *words]
    with Path("/dev/full").open("wb") as full:
        return subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120
        )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("words", WORDS, ids=" ".join)
def test_a_full_disk_is_no_bug(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    ended = without_room(*words)
    assert "standard output" in ended.stderr
    assert "No space left on device" in ended.stderr
    assert "bug" not in ended.stderr
    assert ended.returncode == 3


def test_a_run_goes_on_while_its_output_has_no_room(vgpu_cfg: CommandLine) -> None:
    ended = without_room("apply", "--yes", "plans/small.yaml")
    assert ended.returncode == 3, ended.stderr
    assert "No space left on device" in ended.stderr
    assert "done" in vgpu_cfg("history").out
