"""Each outside judge has a version, which its file names, a date, and a reason if it is old."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from tests.architecture.sources import ROOT
from tests.freshness import MOST_OLD, Judge, is_behind, judges, table

COMPARED, JUDGES = judges()
TODAY = date(2026, 11, 29)
OLD = Judge("x", "v1.2.0", date(2025, 1, 1), "a", "go a/b", why="it stays")


@pytest.mark.parametrize("judge", JUDGES, ids=lambda one: one.name)
def test_the_file_names_the_version(judge: Judge) -> None:
    assert judge.version in (ROOT / judge.file).read_text(encoding="utf-8")
    assert judge.why or not judge.is_old(COMPARED)


def test_at_most_five_are_old() -> None:
    old = [one.name for one in JUDGES if one.is_old(COMPARED)]
    assert len(old) <= MOST_OLD, old


def test_no_name_is_listed_twice() -> None:
    assert len({one.name for one in JUDGES}) == len(JUDGES) > MOST_OLD


@pytest.mark.parametrize(
    ("version", "other", "behind"),
    [
        ("v1.9.0", "v1.10.0", True),
        ("v1.10.0", "v1.10.0", False),
        ("22.05.8", "22.05.8", False),
        ("1", "", False),
    ],
)
def test_versions_compare_by_numbers(version: str, other: str, behind: bool) -> None:
    assert is_behind(version, other) is behind


@pytest.mark.parametrize(
    ("other", "says"), [("v1.3.0", "behind v1.3.0"), ("v1.2.0", "newest"), ("", "nothing")]
)
def test_a_judge_is_old_whatever_its_registry_has(other: str, says: str) -> None:
    lines, old = table([OLD, replace(OLD, released=TODAY)], TODAY, lambda _: other)
    assert old == [OLD]
    assert says in lines[0]
    assert "older than six months: it stays" in lines[0]
    assert "older" not in lines[1]
