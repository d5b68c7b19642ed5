"""Tables of the docs that are made of what the program knows, between two marks of their page."""

from __future__ import annotations

import os
from pathlib import Path

BEGIN, END = "<!-- table -->", "<!-- /table -->"


def hold_table(page: Path, made: str) -> None:
    """Hold a page's table to what was made; REWRITE_PAGES=1 writes it anew."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if os.environ.get("REWRITE_PAGES") == "1":
        page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
        return
    assert shown.strip() == made, "REWRITE_PAGES=1 writes it anew"
