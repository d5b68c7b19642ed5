"""docs/README.md lists every page that did not move; links lead to pages and sections that are there.

A page that moved keeps its path and its title. Its text is one line, "This page moved to [X](x.md#section).",
and a bullet for each anchor that links may still have: `* <a id="old"></a>[Y](y.md#new)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, named, project_files

DOCS = ROOT / "docs"
INDEX = DOCS / "README.md"
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")
HEADING = re.compile(r"^#+ (.+?)(?: #+)?$", re.MULTILINE)
BLOCK = re.compile(r"^( *)(```|~~~).*?^ *\2 *$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`[^`\n]*`")
OWN_ANCHOR = re.compile(r'<a id="([^"]+)"')
MOVED = re.compile(r"\A# .+\n\nThis page moved to \[")
STUB = re.compile(
    r"\A# .+\n\nThis page moved to \[[^\]]+\]\([^)]+\)\.\n"
    r"(\n(\* (<a id=\"[\w-]+\"></a>)+\[[^\]]+\]\([^)]+\)\n)+)?\Z"
)
LISTED_ELSEWHERE = ("docs/reference/checks/",)


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


PAGES = {path: text_of(path) for path in project_files() if path.suffix == ".md"}
STUBS = [path for path, text in PAGES.items() if MOVED.match(text)]


def links_of(page: Path, text: str) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each link to a file here."""
    for target, anchor in LINK.findall(CODE.sub("", BLOCK.sub("", text))):
        yield (page.parent / target).resolve() if target else page, anchor


def anchors_of(text: str) -> set[str]:
    """Return what links to a page's sections may end with, as GitHub and the site write it."""
    found: set[str] = set()
    for heading in HEADING.findall(BLOCK.sub("", text)):
        words = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
        slug = re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-")
        found.add(next(one for one in (slug, *(f"{slug}-{n}" for n in range(1, 99))) if one not in found))
    return found | set(OWN_ANCHOR.findall(text))


def broken_links(pages: dict[Path, str]) -> list[str]:
    """List the links to pages or sections that are not there."""
    anchors = {path: anchors_of(text) for path, text in PAGES.items()}
    return [
        f"{named(page)}: {named(target) if target.exists() else target.name}#{anchor}"
        for page, text in pages.items()
        for target, anchor in links_of(page, text)
        if not target.exists() or (anchor and anchor not in anchors.get(target, {anchor}))
    ]


def links_to_stubs(pages: dict[Path, str], stubs: list[Path]) -> list[str]:
    """List the links that lead to a page that moved."""
    return [
        f"{named(page)}: {named(target)}"
        for page, text in pages.items()
        if page not in stubs
        for target, _ in links_of(page, text)
        if target in stubs
    ]


def test_every_page_is_listed_unless_it_moved() -> None:
    listed = {target for target, _ in links_of(INDEX, text_of(INDEX))}
    pages = {path for path in PAGES if path.is_relative_to(DOCS) and path != INDEX}
    own = {path for path in pages if not named(path).startswith(LISTED_ELSEWHERE)}
    assert sorted(map(named, own - listed - set(STUBS))) == []


def test_every_link_leads_to_a_page_and_a_section() -> None:
    assert broken_links(PAGES) == []


def test_a_page_that_moved_says_where_and_no_more() -> None:
    assert [named(stub) for stub in STUBS if not STUB.match(PAGES[stub])] == []


def test_no_page_links_to_a_page_that_moved() -> None:
    assert links_to_stubs(PAGES, STUBS) == []


def test_nothing_else_names_a_page_that_moved() -> None:
    names = {stub.relative_to(DOCS).as_posix() for stub in STUBS}
    kinds = {".py", ".yaml", ".yml", ".j2", ".toml", ".sh", ".json", ".txt"}
    others = (path for path in project_files() if path.suffix in kinds or path.parent.name == "script")
    found = [
        f"{named(path)}: {name}"
        for path in (others if names else ())
        for name in names
        if name in path.read_text(encoding="utf-8", errors="replace")
    ]
    assert found == []


def test_a_link_to_a_page_that_moved_and_one_to_no_section_are_found() -> None:
    page = ROOT / "page.md"
    text = "[old](docs/README.md#none) `[code](x.md)` [new](docs/README.md#guides)"
    assert broken_links({page: text}) == ["page.md: docs/README.md#none"]
    assert links_to_stubs({page: text}, [INDEX]) == ["page.md: docs/README.md"] * 2


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("# Old\n\nThis page moved to [New](new.md#there).\n", True),
        ('# Old\n\nThis page moved to [New](new.md).\n\n* <a id="a"></a><a id="b"></a>[A](new.md#a)\n', True),
        ("# Old\n\nThis page moved to [New](new.md).\n\nAnd more.\n", False),
    ],
)
def test_what_a_page_that_moved_may_say(text: str, is_one: bool) -> None:
    assert MOVED.match(text)
    assert bool(STUB.match(text)) is is_one


def test_the_first_pages_are_short_and_one_click_from_the_readme() -> None:
    readme = ROOT / "README.md"
    linked = {target for target, _ in links_of(readme, text_of(readme))}
    most_words = {"tutorial/first-real-apply.md": 1_200, "explanation/status-and-limits.md": 800}
    pages = {DOCS / name: most for name, most in most_words.items()}
    assert pages.keys() <= linked
    assert [named(page) for page, most in pages.items() if len(PAGES[page].split()) > most] == []
