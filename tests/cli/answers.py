"""Every command in every format, with a file as its standard output, descriptor 1 included, as in a shell.

Also a program: it prints which formats could be read, with the libraries of the Python that starts it.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from junitparser import JUnitXml

from tests.cli.command_line import CommandLine
from tests.cli.test_help import COMMANDS
from vgpu_cfg import __main__ as program


@contextmanager
def standard_output(file: Path) -> Iterator[None]:
    """Lead descriptor 1 and `sys.stdout` to a file, and give `sys.stderr` a descriptor of its own."""
    before = {name: getattr(sys, name) for name in ("stdout", "__stdout__", "stderr")}
    kept = os.dup(1)
    with file.open("wb") as opened:
        os.dup2(opened.fileno(), 1)
    with os.fdopen(os.dup(2), "w", encoding="utf-8") as errors:
        sys.stdout, sys.stderr = os.fdopen(1, "w", encoding="utf-8", closefd=False), errors
        try:
            yield
        finally:
            sys.stdout.close()
            sys.stderr.close()
            for name, stream in before.items():
                setattr(sys, name, stream)
            os.dup2(kept, 1)
            os.close(kept)


def answer(words: Sequence[str], file: Path) -> int:
    """Run a command whose standard output is a file, and return its exit code."""
    before, sys.argv = sys.argv, ["vgpu-cfg", *words]
    try:
        with standard_output(file):
            program.main()
    except SystemExit as ended:
        if isinstance(ended.code, int):
            return ended.code
    finally:
        sys.argv = before
    raise AssertionError(f"{words} ended without an exit code")


def file_of(number: int) -> Path:
    return Path(f"answer-{number}")


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
    "upgrade": f"--driver 595.71 {LAB}",
    "fit": f"grid_a100-40c {LAB}",
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
    "freeze": f"--thaw {LAB}",
    "trial": f"--yes {LAB}",
    "metrics": f"--once {LAB}",
    "lab list": "",
    "lab restart": "two-a100",
    "lab hand": "bare esx-r12-0{}.lab --fail",  # a server of its own for each format
    "lab reset": "two-a100",
}
ENDS = {"plan": 4}
WITHOUT = {"lab serve": "it runs until Ctrl-C: tests/cli/test_process.py"}
BANNER = "Running a native library: Copyright (c)"
NOTICE = "Copyright (c)"
"""Part of the banner here and of that of HiGHS, and of no answer."""


def choices_of(option: Any) -> tuple[str, ...]:
    """Return the values of an option that has fixed ones; Typer keeps its type elsewhere since 0.29."""
    described = getattr(option, "type_descriptor", None)
    if described is None:
        return tuple(getattr(option.type, "choices", ()))
    kind = described.annotation
    return tuple(kind) if inspect.isclass(kind) and issubclass(kind, StrEnum) else ()


def asked(command: str) -> list[list[str]]:
    """Return a command line for each combination of the formats that a command declares itself."""
    options: Any = COMMANDS[command].params
    formats = [
        [f"{option.opts[0]}={value}" for value in choices]
        for option in options
        if set(option.opts) & {"--output", "--format"} and (choices := choices_of(option))
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
    if "--output=json" in words:
        json.loads(text)
    elif "--output=junit" in words:
        JUnitXml.fromstring(text)
    elif "--output=markdown" in words:
        assert text.startswith("###"), words


def format_of(words: Sequence[str]) -> str:
    """Name the columns of a command line in the table: its values of `--output` and `--format`."""
    chosen = [word.partition("=")[2] for word in words if word.startswith(("--output=", "--format="))]
    return "/".join(chosen) or "its own"


def main() -> None:
    """Print a row for each command with the formats that its reader could read; exit 1 if one is missing."""
    rows: dict[str, list[str]] = {}
    bad = []
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        CommandLine(Path(folder), patched)
        for number, words in enumerate(ASKED):
            command = max((name for name in ARGUMENTS if words[: len(name.split())] == name.split()), key=len)
            try:
                code = answer(words, file_of(number))
                read(words, file_of(number).read_text(encoding="utf-8"))
                assert code == expected(words), f"exit code {code}"
                rows.setdefault(command, []).append(format_of(words))
            except Exception as error:  # noqa: BLE001 -- a table with all that is wrong
                bad.append(f"{' '.join(words)}: {type(error).__name__}: {error}")
        os.chdir("/")
    for command in ARGUMENTS:
        sys.stdout.write(f"{command:<16}{' '.join(sorted(rows.get(command, ['-'])))}\n")
    sys.stdout.write(f"{len(ASKED) - len(bad)} of {len(ASKED)} answers of {len(rows)} commands were read\n")
    sys.exit("\n".join(bad) or None)


if __name__ == "__main__":
    main()
