"""The places of the checks' pages, in a wheel and in a source checkout, and their parts."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from vgpu_cfg.model.frozen import Frozen

_TITLE = re.compile(r"^# (VG\d{3}): (.+)$", re.MULTILINE)
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


class Section(Frozen):
    """A part of a page: its heading and its Markdown."""

    heading: str
    text: str


class CheckPage(Frozen):
    """The page of a check."""

    code: str
    title: str
    sections: tuple[Section, ...]


@cache
def page_folder() -> Path | None:
    """Return where the pages are, None where the installation lacks them."""
    package = Path(__file__).parents[1]
    for folder in (package / "_checks", package.parent / "docs" / "reference" / "checks"):
        if folder.is_dir():
            return folder
    return None


def read_page(code: str) -> CheckPage | None:
    """Read the page of a check, None where it has none."""
    folder = page_folder()
    path = None if folder is None else folder / f"{code}.md"
    if path is None or not path.is_file():
        return None
    return make_page(code, path.read_text(encoding="utf-8"))


def make_page(code: str, markdown: str) -> CheckPage:
    """Divide a page at its headings; text before the first one, apart from the title, is left out."""
    title = _TITLE.search(markdown)
    _, *parts = _HEADING.split(markdown)
    return CheckPage(
        code=code,
        title=title.group(2) if title else "",
        sections=tuple(
            Section(heading=heading.strip(), text=text.strip())
            for heading, text in zip(parts[::2], parts[1::2], strict=True)
        ),
    )
