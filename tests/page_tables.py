"""Tables of the docs that are made of what the program knows, between two marks of their page."""

from __future__ import annotations

import os
import re
from pathlib import Path

BEGIN, END = "<!-- table -->", "<!-- /table -->"

_CODE = re.compile(r"`[^`]*`|\$?\{[^}]*\}|(?<![\w-])--[a-z][a-z-]*|[^\s`,;:()]*[*<>][^\s`,;:()]*")


def as_code(text: str) -> str:
    """Mark options, globs and what is in braces as code, for a cell of a table; what is marked stays."""
    marked = _CODE.sub(lambda found: found[0] if found[0].startswith("`") else f"`{found[0]}`", text)
    return marked.replace("|", "\\|")


def own_words(table: str) -> dict[str, str]:
    """Return what a page adds to rows of a made table after `<br>`, by the name in the first cell."""
    return {found[1]: found[2] for found in re.finditer(r"^\| `([^`]+)`.*?<br>(.*) \|$", table, re.MULTILINE)}


def hold_table(page: Path, made: str) -> None:
    """Hold a page's table to what was made; REWRITE_PAGES=1 writes it anew."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    shown, _, after = rest.partition(END)
    if os.environ.get("REWRITE_PAGES") == "1":
        page.write_text(f"{before}{BEGIN}\n{made}\n{END}{after}", encoding="utf-8")
        return
    assert shown.strip() == made, "REWRITE_PAGES=1 writes it anew"
