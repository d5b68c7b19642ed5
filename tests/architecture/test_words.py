"""One word for one thing: docs/reference/words.md has each term once, and dropped words stay dropped."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, modules, named

PAGE = ROOT / "docs" / "reference" / "words.md"
ROW = re.compile(r"^\| (?P<term>[^|]+) \| (?P<meaning>[^|]+) \| (?P<whose>[^|]+) \|$")
OWNERS = ("vSphere", "NVIDIA", "the field", "desired-state tools", "linters", "ours")

INSTEAD = {
    "wish": "desired setting",
    "wishes": "desired settings",
    "gaps": "drifts",
    "stretch": "phase",
    "stretches": "phases",
    "ware": "item",
    "wares": "items",
    "pile": "class",
    "mend": "fix",
    "mended": "fixed",
    "contest": "start queue",
    "contests": "start queues",
    "judge": "assess, or check",
    "judged": "assessed, or checked",
    "judgement": "condition",
    "heeds": "uses",
    "knock": "try",
    "lend": "give",
    "homeless": "unplaced",
    "untold": "unknown",
    "bystart": "by size",
}
"""What to say for words that nobody in the field uses."""

KEPT = {
    "contests": "saved plans have the field",
    "cpu_untold": "JSON output has the key",
}
"""Identifiers that may hold such a word, and why."""


def words_of(identifier: str) -> list[str]:
    """Take an identifier apart at its underscores and capitals."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", identifier)]


def identifiers(source: str) -> Iterator[str]:
    """Yield all names that a module defines, takes or reads; imported modules part by part."""
    for node in ast.walk(ast.parse(source)):
        for field in ("id", "attr", "name", "arg", "asname", "module"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                yield from value.split(".")


def dropped(identifier: str) -> list[str]:
    return [] if identifier in KEPT else [word for word in words_of(identifier) if word in INSTEAD]


def test_dropped_words_do_not_come_back() -> None:
    found = {
        f"{named(path)}: {name}: say {INSTEAD[word]}"
        for path in modules()
        for name in (*identifiers(path.read_text(encoding="utf-8")), path.stem)
        for word in dropped(name)
    }
    assert sorted(found) == []


def test_every_exception_is_needed() -> None:
    used = {name for path in modules() for name in identifiers(path.read_text(encoding="utf-8"))}
    assert sorted(KEPT.keys() - used) == []


@pytest.mark.parametrize(
    ("identifier", "words"),
    [
        ("Wish", ["wish"]),
        ("_make_wishes", ["wishes"]),
        ("HostJudge", ["judge"]),
        ("_bystart_size", ["bystart"]),
        ("NOT_JUDGED", ["judged"]),
        ("VgpuWare", ["ware"]),
        ("hardware_version", []),
        ("recommended", []),
        ("mip_rel_gap", []),
        ("contests", []),
    ],
)
def test_a_dropped_word_is_found_in_an_identifier(identifier: str, words: list[str]) -> None:
    assert dropped(identifier) == words


def rows(page: Path = PAGE) -> list[re.Match[str]]:
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    found = [ROW.match(line) for line in lines]
    assert all(found), [line for line, match in zip(lines, found, strict=True) if match is None]
    return [match for match in found if match is not None]


def test_each_term_stands_once_and_in_its_place() -> None:
    terms = [row["term"].casefold() for row in rows()]
    assert terms == sorted(set(terms))


def test_each_term_has_one_sentence_and_an_owner() -> None:
    wrong = [
        row["term"]
        for row in rows()
        if not row["meaning"].endswith(".") or not row["whose"].startswith(OWNERS)
    ]
    assert wrong == []
