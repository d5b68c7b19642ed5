"""English that admins speak: sentences with a pattern that they do not use may only become fewer."""

from __future__ import annotations

import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from typing import Any

import pytest

from tests.architecture.sources import ROOT

MOST = {
    "README": 0,
    "tutorial": 0,
    "how-to": 3,
    "explanation": 0,
    "reference": 5,
    "checks": 0,
    "decisions": 0,
    "contributing": 0,
    "changelog": 0,
    "messages": 13,
    "docstrings": 1,
}
"""Sentences of each section that have a pattern (`script/words` lists them). Only lower it."""


@pytest.fixture(scope="module")
def script() -> Any:
    """Load `script/words`, whose name has no ending."""
    spec = spec_from_loader("plain_words", SourceFileLoader("plain_words", str(ROOT / "script" / "words")))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["plain_words"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("section", MOST)
def test_a_section_has_no_more_foreign_sentences_than_before(script: Any, section: str) -> None:
    assert sum(one.is_foreign for one in script.of_section(section)) <= MOST[section]


def test_every_section_is_counted(script: Any) -> None:
    assert set(script.SECTIONS) == set(MOST)


def test_prose_is_divided_and_code_tables_and_headings_are_not_prose(script: Any) -> None:
    page = "# What is it\n\nSee [what is new](x.md). Then run `it by hand` again:\n\n* one\n\n| by hand |\n"
    assert list(script.sentences(page)) == ["See what is new.", "Then run X again:"]


@pytest.mark.parametrize(
    ("text", "is_foreign"),
    [
        ("Whoever powers it on is not stopped.", True),
        ("Where nothing can show it, say so.", True),
        ("If it cannot be detected, confirm it.", False),
        ("The GUEST column shows them.", False),
    ],
)
def test_a_pattern_is_found_in_a_sentence(script: Any, text: str, is_foreign: bool) -> None:
    assert script.Sentence(ROOT, text).is_foreign is is_foreign
