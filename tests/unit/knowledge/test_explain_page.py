"""The reference page of known texts says what the table says."""

from __future__ import annotations

import os

from tests.architecture.sources import ROOT
from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow
from vgpu_cfg.knowledge.rows.table import PLACES

PAGE = ROOT / "docs" / "reference" / "explain.md"
BEGIN, END = "<!-- texts -->", "<!-- /texts -->"


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def _row(row: FaultRow) -> str:
    known = "seen" if row.confidence is Confidence.SEEN else "recalled"
    sample = row.sample.replace("|", r"\|")
    cells = (f"`{row.key}`", f"`{sample}`", _cell(row.symptom), known, _cell(row.source))
    return f"| {' | '.join(cells)} |"


def _heading(place: str) -> str:
    return place if place.startswith("vCenter") else f"{place[0].upper()}{place[1:]}"


def texts() -> str:
    """Write the tables: a place each."""
    lines: list[str] = []
    for place, rows in PLACES.items():
        lines += [
            "",
            f"## {_heading(place)}",
            "",
            "| Key | A text as it is met | What it means | Known | Source |",
            "|---|---|---|---|---|",
            *map(_row, rows),
        ]
    return "\n".join([*lines[1:], ""])


def test_the_page_has_the_texts_of_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")
    head, _, rest = page.partition(f"{BEGIN}\n")
    _, _, tail = rest.partition(END)
    wanted = f"{head}{BEGIN}\n\n{texts()}\n{END}{tail}"
    if os.environ.get("REWRITE_PAGES") == "1":
        PAGE.write_text(wanted, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == wanted
