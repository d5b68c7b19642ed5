"""What is printed reads as its transcript; REWRITE_TRANSCRIPTS=1 writes them anew, for you to read."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.unit.render.transcripts import (
    CASES,
    DISPLAYS,
    DOCUMENTS,
    FOLDER,
    WIDTHS_OF,
    document_of,
    path_of,
    styled,
    styles_of,
)
from vgpu_cfg.render.layout.console import plain

CROWDED = (
    *("inventory", "inventory-all", "profiles", "run-done", "run-failed"),
    *("run-hosts-failed", "run-hosts-waiting", "run-guests-done", "guests-status", "guests-new"),
)
IS_REWRITING = os.environ.get("REWRITE_TRANSCRIPTS") == "1"


ALL = CASES | DISPLAYS


@pytest.mark.parametrize(("case", "width"), [(case, width) for case in ALL for width in WIDTHS_OF[case]])
def test_it_reads_as_its_transcript(case: str, width: int) -> None:
    printed = plain(ALL[case](width))
    assert printed == transcript(path_of(case, width), printed)


@pytest.mark.parametrize("case", ALL)
def test_its_styles_are_those_of_its_transcript(case: str) -> None:
    styles = styled(ALL[case](100))
    assert styles == transcript(styles_of(case), styles)


@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_document_reads_as_its_transcript(case: str) -> None:
    written = DOCUMENTS[case]()
    assert written == transcript(document_of(case), written)


def transcript(path: Path, printed: str) -> str:
    """Return what a transcript says, after it was written anew where that is asked for."""
    if IS_REWRITING:
        path.write_text(printed, encoding="utf-8")
    return path.read_text(encoding="utf-8")


def test_no_transcript_is_left_over() -> None:
    expected = {path_of(case, width) for case in ALL for width in WIDTHS_OF[case]}
    expected |= {styles_of(case) for case in ALL} | {document_of(case) for case in DOCUMENTS}
    assert {path for path in FOLDER.rglob("*") if path.is_file()} == expected


@pytest.mark.parametrize("case", CASES)
def test_no_line_is_wider_than_it_may_be_and_no_word_is_lost(case: str) -> None:
    words = None
    for width in range(80, 121, 8):
        text = plain(CASES[case](width))
        lines = [line for line in text.splitlines() if not line.startswith("LOG")]
        assert max(len(line) for line in lines) <= width
        if case not in CROWDED:
            # Tables drop columns and headings drop facts where there is no room; the rest must not.
            found = sorted(re.findall(r"\S+", text))
            assert words is None or found == words
            words = found
