"""Standard output holds the answer alone: nothing that native libraries print on descriptor 1."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from typing import Any

import highspy
import pytest

from tests.cli.answers import (
    ARGUMENTS,
    ASKED,
    BANNER,
    PLAN,
    SOLVED,
    WITHOUT,
    answer,
    asked,
    expected,
    file_of,
    read,
)
from tests.cli.command_line import CommandLine
from tests.cli.test_help import COMMANDS
from tests.cli.test_process import DEADLINE_SECONDS, PROGRAM, environment
from vgpu_cfg.cli import app

LOUD = f"""
import os, sys
import vgpu_cfg.__main__
class Loud:
    def find_spec(name, *_):
        os.write(1, b"{BANNER}")
sys.meta_path.insert(0, Loud)
vgpu_cfg.__main__.main()
"""
"""Every module that is imported for a command prints on descriptor 1."""


def test_each_command_is_asked_or_has_a_reason_not_to_be() -> None:
    assert set(COMMANDS) == set(ARGUMENTS) | set(WITHOUT)
    assert ["plan", SOLVED, "--output=junit"] in ASKED
    assert {tuple(words[-2:]) for words in asked("hand-over")} >= {("--format=mpi", "--output=json")}


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_every_answer_in_every_format_is_alone(
    vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = []

    def loud() -> None:
        os.write(1, BANNER.encode())
        printed.append(BANNER)

    class Loud(highspy.Highs):
        def __init__(self) -> None:
            loud()
            super().__init__()  # type: ignore[no-untyped-call]  # its stub has no types there

    def loud_command(command: Callable[[], Any] = app._command) -> Any:
        loud()
        return command()

    monkeypatch.setattr(app, "_command", loud_command)
    monkeypatch.setattr(highspy, "Highs", Loud)
    for number, words in enumerate(ASKED):
        assert answer(words, file_of(number)) == expected(words), words
        read(words, file_of(number).read_text(encoding="utf-8"))
    assert len(printed) > len(ASKED) + 10, "the solver was not asked"


def test_a_library_that_prints_when_it_is_imported_is_not_read(vgpu_cfg: CommandLine) -> None:
    words = ["plan", SOLVED, "--output=json"]
    done = subprocess.run(
        [sys.executable, "-c", LOUD, *words],
        env=environment(PYTHONUNBUFFERED=""),  # as a user starts it
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    assert done.returncode == 4, done.stderr
    read(words, done.stdout)


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        ("validate --schema plan-file", ">&-", 0),
        (f"apply {PLAN}", "<&-", 2),
        ("validate missing.yaml --output=json", "2>&-", 3),
        ("validate --schema plan-file", "<&- >&- 2>&-", 0),
    ],
)
def test_a_standard_stream_that_is_closed_is_no_bug(
    words: str, closed: str, code: int, vgpu_cfg: CommandLine
) -> None:
    line = f"{shlex.join(PROGRAM)} {words} {closed}"
    done = subprocess.run(["/bin/sh", "-c", line], env=environment(), check=False, timeout=DEADLINE_SECONDS)
    assert done.returncode == code


def test_a_terminal_at_standard_output_alone_decides_on_the_width(vgpu_cfg: CommandLine) -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 117, 0, 0))
    at_terminal = {name: value for name, value in environment(TERM="xterm").items() if name != "COLUMNS"}
    done = subprocess.run(
        [*PROGRAM, "explain", "VG107"],
        env=at_terminal,
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
        check=False,
        timeout=DEADLINE_SECONDS,
    )
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0
    assert "\x1b[" in shown
    assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) > 100
