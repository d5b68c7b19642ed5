"""Standard output holds the answer alone: nothing that native libraries print on descriptor 1."""

from __future__ import annotations

import fcntl
import inspect
import json
import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
import tomllib
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

import highspy
import pytest
from junitparser import JUnitXml

from tests.cli.answers import answer, file_of
from tests.cli.command_line import ROOT, CommandLine
from tests.cli.test_help import COMMANDS
from tests.cli.test_process import DEADLINE_SECONDS, PROGRAM, environment
from tests.wheel.test_wheel import OFFLINE
from vgpu_cfg.cli import app

PLAN = "plans/pair.yaml"
SOLVED = "plans/two-whole.yaml"
"""A plan that does not fit, so that the solver is asked; its answer says so."""
JOINED = "examples/head-and-workers.yaml"
LAB = "--server=lab:two-a100"
HOST = "esx-one-01.lab"
ITS_LAB = "--server=lab:one-a100"
ARGUMENTS = {
    "validate": PLAN,
    "plan": SOLVED,
    "apply": f"{PLAN} --yes",
    "status": PLAN,
    "verify": PLAN,
    "runbook": PLAN,
    "inventory": LAB,
    "doctor": LAB,
    "history": LAB,
    "usage": LAB,
    "upgrade": f"--driver 595.71 {LAB}",
    "fit": f"grid_a100-40c {LAB}",
    "rebalance": f"{SOLVED} --dry-run",
    "size": "--parameters 7e9 --workers 8 --board A100",
    "profiles": "--board A100",
    "privileges": PLAN,
    "explain": "VG107",
    "hand-over": f"{JOINED} --login anna --identity-file key",
    "export": f"--update {PLAN} --vm hvd-* --dry-run",
    "import": f"{PLAN} --dry-run",
    "forget": f"{PLAN} --dry-run",
    "destroy": f"{PLAN} --dry-run",
    "drain": f"{HOST} {ITS_LAB} --dry-run",
    "cordon": f"host:{HOST} {ITS_LAB} --reason fans",
    "uncordon": f"host:{HOST} {ITS_LAB}",
    "unlock": LAB,
    "support-bundle": f"gpu:{HOST}/* {ITS_LAB}",
    "freeze": f"--thaw {LAB}",
    "trial": f"--yes {LAB}",
    "schema": "",
    "metrics": f"--once {LAB}",
    "lab list": "",
    "lab restart": "two-a100",
    "lab hand": "bare esx-r12-0{}.lab --fail",  # a server of its own for each format
    "lab reset": "two-a100",
}
ENDS = {"plan": 4, "rebalance": 4}
WITHOUT = {"record": "it prints no answer", "lab serve": "it runs until Ctrl-C: tests/cli/test_process.py"}
BANNER = "Running a native library: Copyright (c)"
NOTICE = "Copyright (c)"
"""Part of the banner here and of that of HiGHS, and of no answer."""
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


def asked(command: str) -> list[list[str]]:
    """Return a command line for each combination of the formats that a command declares itself."""
    options: Any = COMMANDS[command].params
    formats = [
        [f"{option.opts[0]}={value}" for value in kind]
        for option in options
        if set(option.opts) & {"--output", "--format"}
        and inspect.isclass(kind := option.type_descriptor.annotation)
        and issubclass(kind, StrEnum)
    ]
    return [
        [*command.split(), *ARGUMENTS[command].format(number).split(), *chosen]
        for number, chosen in enumerate(product(*formats), start=3)
    ]


def expected(words: Sequence[str]) -> int:
    """Return the exit code that a command line must end with."""
    return ENDS.get(words[0], 0)


ASKED = sorted(
    (words for command in ARGUMENTS for words in asked(command)),
    key=lambda words: "--output=json" not in words,
)
"""JSON comes first: a library may print once per process, and text would not show it."""


def read(words: Sequence[str], text: str) -> None:
    """Read an answer as its reader does."""
    assert text.strip(), words
    assert NOTICE not in text, words
    if "--output=json" in words or words[0] == "schema":
        json.loads(text)
    elif "--output=junit" in words:
        JUnitXml.fromstring(text)
    elif "--output=markdown" in words:
        assert text.startswith("###"), words


def test_each_command_is_asked_or_has_a_reason_not_to_be() -> None:
    assert set(COMMANDS) == set(ARGUMENTS) | set(WITHOUT)
    assert ["plan", SOLVED, "--output=junit"] in ASKED
    assert {tuple(words[-2:]) for words in asked("hand-over")} >= {("--format=mpi", "--output=json")}


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
    words = ["rebalance", SOLVED, "--dry-run", "--output=json"]
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
        ("schema", ">&-", 0),
        (f"apply {PLAN}", "<&-", 2),
        ("validate missing.yaml --output=json", "2>&-", 3),
        ("schema", "<&- >&- 2>&-", 0),
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


@pytest.mark.exhaustive("every answer with the newest libraries: tests/cli/test_answer_alone.py")
def test_every_answer_is_alone_with_the_newest_libraries(vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    """Newer ones than pyproject.toml allows, too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    newest = [re.sub(r",\s*<[^,;]+", "", one) for one in project["dependencies"]]
    python = tmp_path / "newest" / "bin" / "python"
    make = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "newest")]
    subprocess.run(make, check=True, timeout=600)
    pip = [sys.executable, "-m", "pip", f"--python={python}", "--disable-pip-version-check", "--retries=1"]
    words = ["--quiet", "--only-binary=:all:", "--upgrade"]
    done = subprocess.run(
        [*pip, "install", *words, *newest], capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode and OFFLINE.search(done.stderr):
        pytest.skip("the newest libraries cannot be fetched: nobody looked whether they print")
    assert done.returncode == 0, done.stderr
    ran = subprocess.run(
        [python, "-m", "tests.cli.answers"],
        env=environment(),
        input=json.dumps(ASKED),
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == [expected(words) for words in ASKED], ran.stderr
    for number, words in enumerate(ASKED):
        read(words, file_of(number).read_text(encoding="utf-8"))
