"""What a page shows of the command line is what the command line prints: every page is one session.

A block fenced as `console` is played where it shows output, and a `yaml` block whose first line is a
comment with a file's name is written to that file before. `…` on a line stands for lines left out.
REWRITE_PAGES=1 with --all writes what is printed into the pages, as much of it as they show now.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.architecture.sources import named, project_files
from tests.cli.command_line import CommandLine, Ran
from tests.cli.transcript import PROMPT
from tests.cli.transcript import replaced as without_seconds
from vgpu_cfg.cli.compose import SystemClock

WIDTH = 96
GAP = "…"
STATUS = "echo $?"
MUST_REWRITE = os.environ.get("REWRITE_PAGES", "")
FENCE = re.compile(r"^```(console|yaml)(?: refused)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w-]+\.yaml)\n")
PROMPTED = re.compile(rf"^(?={re.escape(PROMPT)})", re.MULTILINE)
VARYING = (
    # What the lab's guests take depends on how often they are asked; the minutes of a clock pass.
    (re.compile(r"\b\d+ min\b( \d+ s\b)?"), "1 s"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(Z|\b)"), "<moment>"),
    # How busy a GPU of the lab is, and so how warm, goes by the hour of the day.
    (re.compile(r" +\d+(?:\.\d)? (%|°C|W)(?= |$)"), r" <\1>"),
)
JOURNALS = re.compile(r"\S+/journals/")


def is_played(kind: str, text: str) -> bool:
    return kind == "console" and any(not line.startswith(PROMPT) for line in text.splitlines())


def has_a_session(page: Path) -> bool:
    return any(is_played(*match.groups()) for match in FENCE.finditer(page.read_text(encoding="utf-8")))


FIRST_APPLY = "docs/tutorial/first-real-apply.md"
"""Its commands need a vCenter behind HTTPS: tests/cli/test_first_apply.py plays them."""
PAGES = [
    path
    for path in project_files()
    if path.suffix == ".md" and has_a_session(path) and named(path) != FIRST_APPLY
]
FIRST = ("README.md", "docs/tutorial/first-plan.md")
"""What somebody new types first: these pages are played in every run."""


LATER = pytest.mark.long("sessions that pages of the docs show: tests/cli/test_pages.py")


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if named(page) in FIRST else LATER, id=named(page)) for page in PAGES],
)
def test_a_page_shows_what_is_printed(
    page: Path, vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(WIDTH))
    if MUST_REWRITE:
        monkeypatch.delenv("VGPU_CFG_LAB_SPEED")
    else:
        leap_over_pauses(monkeypatch)
    text = page.read_text(encoding="utf-8")
    pieces = []
    at = 0
    differences: list[str] = []
    for match in FENCE.finditer(text):
        kind, shown = match.groups()
        if kind == "yaml" and (name := FILE_NAME.match(shown)):
            vgpu_cfg.write(name.group(1), shown)
        if is_played(kind, shown):
            pieces += [text[at : match.start(2)], *play(shown, vgpu_cfg, differences)]
            at = match.end(2)
    if MUST_REWRITE:
        page.write_text("".join([*pieces, text[at:]]), encoding="utf-8")
        pytest.skip("written anew")
    assert differences == []


def leap_over_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pauses move the clock on, so that nothing waits."""
    paused: list[float] = []
    monkeypatch.setattr(SystemClock, "pause", lambda _self, seconds: paused.append(seconds))
    monkeypatch.setattr(SystemClock, "now", lambda _self: datetime.now(UTC) + timedelta(seconds=sum(paused)))


def play(shown: str, run: Callable[..., Ran], differences: list[str]) -> Iterator[str]:
    """Run the commands of a block; yield it as it should read, and note where it does not."""
    code = 0
    parts = [part for part in PROMPTED.split(shown) if part]
    for part, following in pairwise([*parts, ""]):
        command, *expected = part.splitlines()
        words = shlex.split(command.removeprefix(PROMPT))
        if words == STATUS.split():
            printed = [str(code)]
        else:
            assert words[0] == "vgpu-cfg", command
            ran = run(*words[1:])
            code = ran.code
            if code and expected == [GAP] and STATUS not in following:
                differences += [command, f"exit {code}, which the page does not show", ran.err]
            printed = [line.rstrip() for line in (ran.out + ran.err).splitlines()]
        right = cut_like(expected, [at_home(line) for line in printed])
        if [replaced(line) for line in right] != [replaced(line) for line in expected]:
            differences += [command, *right]
        yield "\n".join([command, *right]) + "\n"


def replaced(line: str) -> str:
    """Return a line without what differs from run to run."""
    for pattern, word in VARYING:
        line = pattern.sub(word, line)
    return without_seconds(line)


def cut_like(expected: list[str], printed: list[str]) -> list[str]:
    """Leave out of what is printed as much as the page does; its blank lines at the end stay."""
    blank = len(expected) - len("\n".join(expected).rstrip("\n").splitlines())
    told = expected[: len(expected) - blank]
    gaps = [-1, *(index for index, line in enumerate(told) if line == GAP), len(told)]
    runs = [told[before + 1 : after] for before, after in pairwise(gaps)]
    if len(runs) == 1:
        return [*printed, *[""] * blank]
    head, tail = len(runs[0]), len(runs[-1])
    middle: list[str] = []
    for lines in runs[1:-1]:
        start = find([replaced(line) for line in printed], replaced(lines[0]))
        middle += [*printed[start : start + len(lines)], GAP]
    kept = [*printed[:head], GAP, *middle, *printed[len(printed) - tail :]]
    return [*kept, *[""] * blank]


def find(lines: list[str], wanted: str) -> int:
    return lines.index(wanted) if wanted in lines else 0


def at_home(line: str) -> str:
    """Show the journal where it is kept unless told otherwise."""
    return JOURNALS.sub("/home/you/.local/state/vgpu-cfg/journals/", line)


def test_there_are_pages_with_sessions() -> None:
    assert {*FIRST} <= {named(page) for page in PAGES}


@pytest.mark.parametrize(
    ("expected", "right"),
    [
        (["a", "b"], ["1", "2", "3", "4", "5"]),
        (["a", "b", ""], ["1", "2", "3", "4", "5", ""]),
        (["a", GAP], ["1", GAP]),
        (["a", GAP, "d", "e"], ["1", GAP, "4", "5"]),
        ([GAP, "e", ""], [GAP, "5", ""]),
        ([GAP, "3", "z", GAP, "e"], [GAP, "3", "4", GAP, "5"]),
    ],
)
def test_what_a_page_leaves_out_is_left_out(expected: list[str], right: list[str]) -> None:
    assert cut_like(expected, ["1", "2", "3", "4", "5"]) == right
