"""How a session at the command line is written down: `$ command`, what it prints, how it ends.

Lines of standard error begin with `! `; `exit N` follows where N is not 0. What differs
from run to run (times, durations, digests, moments in file names) is replaced by a word.
"""

from __future__ import annotations

import re
import shlex

from tests.cli.command_line import CommandLine

PROMPT = "$ "
_DURATION = r"\d+(?:\.\d)? s\b"
_REPLACED = (
    (re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "<moment>"),
    (re.compile(r"\b\d{8}T\d{6}Z"), "<moment>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d UTC"), "<moment>"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b(?!:)"), "hh:mm:ss"),
    (re.compile(rf"(\bin |  +|, ){_DURATION}"), r"\1N s"),
    (re.compile(r"\b(plan |PLAN   )[0-9a-f]{8}\b"), r"\1<digest>"),
    (re.compile(r"\b-(?=[0-9a-f]*\d|[0-9a-f]{8}-<moment>)[0-9a-f]{8}\b"), "-<digest>"),
    (re.compile(r"^  \d{4}-\d\d-\d\d \d\d:\d\d(?=  |$)"), "  <moment>"),
    (re.compile(r"(?<=  )[0-9a-f]{8}(?=  |$)"), "<run>"),
)
_TIMED = re.compile(r"\bN s\b|\bTIME$")


def commands_of(text: str) -> list[str]:
    """Return the commands of a transcript."""
    return [line.removeprefix(PROMPT) for line in text.splitlines() if line.startswith(PROMPT)]


def comment_of(text: str) -> str:
    """Return what stands before the first command: what the transcript shows."""
    return text.partition(f"\n{PROMPT}")[0]


def play(comment: str, commands: list[str], run: CommandLine) -> str:
    """Run the commands one after another and write down what happens."""
    return "\n".join([comment, *(_played(command, run) for command in commands)]) + "\n"


def _played(command: str, run: CommandLine) -> str:
    words = shlex.split(command)
    environment = {}
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    assert words.pop(0) == "vgpu-cfg", command
    ran = run(*words, **environment)
    lines = [
        *(replaced(line) for line in ran.out.splitlines()),
        *(f"! {replaced(line)}".rstrip() for line in ran.err.splitlines()),
    ]
    return "\n".join([PROMPT + command, *lines, *([f"exit {ran.code}"] if ran.code else []), ""])


def replaced(line: str) -> str:
    """Return a line without what differs from run to run, and without what that does to its margins."""
    for pattern, word in _REPLACED:
        line = pattern.sub(word, line)
    if _TIMED.search(line):
        margin = len(line) - len(line.lstrip())
        line = line[:margin] + re.sub(r" {2,}", "  ", line[margin:])
    return line.rstrip()
