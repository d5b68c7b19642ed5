"""Each outside judge has a version, which its file names, a date, and a reason if it is old."""

from __future__ import annotations

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


@pytest.mark.parametrize(("other", "late"), [("v1.3.0", [OLD]), ("v1.2.0", []), ("", [])])
def test_only_what_has_a_newer_version_is_late(other: str, late: list[Judge]) -> None:
    lines, found = table([OLD], TODAY, lambda _: other)
    assert found == late
    assert "older than six months: it stays" in lines[0]
