"""The ways that CONTRIBUTING.md tells lead somewhere: its files are there, and its commits in the history."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.architecture.sources import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
WAYS = TEXT[TEXT.index("## Eight ways in") : TEXT.index("## Rules for a change")]
FOLDERS = ("docs", "examples", "profiles", "script", "tests", "vgpu_cfg")
PATH = re.compile(rf"`[^`]*?((?:{'|'.join(FOLDERS)})/[\w./-]*)")
COMMIT = re.compile(r'^The commit: `git show (\w{7,})[^`]*`, "([^"]+)"', re.MULTILINE)
SUBJECTS = [
    *("A VM option", "A host setting", "A check", "A kind of change"),
    *("A guest module", "A command", "A board", "A report from the field"),
]


def git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120).stdout.strip()


def ways() -> dict[str, str]:
    pieces = re.split(r"^### (.+)$", WAYS, flags=re.MULTILINE)
    return dict(zip(pieces[1::2], pieces[2::2], strict=True))


def test_every_path_that_is_named_is_there() -> None:
    text = re.sub(r"`git show[^`]*`", "", TEXT)  # a commit has the paths of its day
    named = set(PATH.findall(text))
    assert len(named) > 40
    assert sorted(path for path in named if not (ROOT / path).exists()) == []
    files = {path.name for folder in ("tests", "vgpu_cfg") for path in (ROOT / folder).rglob("*.py")}
    assert set(re.findall(r"`(\w+\.py)`", text)) <= files


def test_there_are_eight_ways_of_a_few_steps() -> None:
    assert list(ways()) == SUBJECTS
    assert [len(re.findall(r"^\d\. ", way, re.MULTILINE)) in (3, 4) for way in ways().values()] == [True] * 8


def test_each_way_names_the_commit_that_went_it() -> None:
    named = {subject: COMMIT.findall(way) for subject, way in ways().items()}
    assert [len(found) for found in named.values()] == [1] * 8
    told = {name: " ".join(words.split()) for ((name, words),) in named.values()}
    known = {name: git("log", "-1", "--format=%s", name) for name in told}
    if not any(known.values()):
        pytest.skip("this clone has not the history: nobody looked whether the commits are in it")
    assert known == told
