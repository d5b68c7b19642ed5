from __future__ import annotations

import re

import pytest

from tests.unit.render.transcripts import CASES, DOCUMENTS, FOLDER, WIDTHS, document_of, path_of
from vgpu_cfg.render.layout.console import plain

CROWDED = (
    *("inventory", "inventory-all", "profiles", "run-done", "run-failed"),
    *("run-hosts-failed", "run-hosts-waiting", "run-guests-done", "guests-status"),
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", CASES)
def test_it_reads_as_its_transcript(case: str, width: int) -> None:
    assert plain(CASES[case](width)) == path_of(case, width).read_text(encoding="utf-8")


@pytest.mark.parametrize("case", DOCUMENTS)
def test_a_document_reads_as_its_transcript(case: str) -> None:
    assert DOCUMENTS[case]() == document_of(case).read_text(encoding="utf-8")


def test_no_transcript_is_left_over() -> None:
    expected = {path_of(case, width).name for case in CASES for width in WIDTHS}
    expected |= {document_of(case).name for case in DOCUMENTS}
    assert {path.name for path in FOLDER.iterdir()} == expected


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
