"""The page on libraries lists what pyproject.toml allows, and an upper bound has a reason."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.architecture.sources import ROOT
from tests.page_tables import hold_table

PROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
ROW = re.compile(r'^ {4}"([\w.-]+)>=([\w.]+)(?:,<([\w.]+))?",?(?: +# (.*))?$', re.MULTILINE)
DEPENDENCIES = ROW.findall(PROJECT[PROJECT.index("dependencies = [") : PROJECT.index("[project.optional")])
PINNED = dict(
    line.split("==")
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").lower().splitlines()
    if "==" in line
)


def made_table() -> str:
    rows = ["| Library | Lowest | `constraints.txt` | Limit |", "|---|---|---|---|"]
    for name, lowest, below, why in DEPENDENCIES:
        limit = f"below {below}: {why}" if below else ""
        pinned = PINNED.get(name) or PINNED[name.replace("-", "_")]
        rows.append(f"| {name} | {lowest} | {pinned} | {limit} |")
    return "\n".join(rows)


def test_the_page_lists_what_is_allowed() -> None:
    hold_table(ROOT / "docs/reference/python-and-libraries.md", made_table())


def test_an_upper_bound_has_its_reason() -> None:
    assert DEPENDENCIES
    assert [name for name, _, below, why in DEPENDENCIES if below and not why] == []


@pytest.mark.parametrize("words", [[], ["oldest", "python3"]])
def test_only_lowest_and_newest_are_made(words: list[str]) -> None:
    command = [str(ROOT / "script" / "build-versions"), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (2, "")
