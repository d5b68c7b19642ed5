"""The documentation as a site: its sections, its links, and no requests to other servers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from posixpath import normpath
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="https?://|<link[^>]+rel="stylesheet"[^>]+href="https?://'
)
LISTED = re.compile(r"^\* \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
TABS = ["Getting started", "Guides", "Concepts", "Reference", "Contributing"]
"""The sections of docs/README.md, which are the tabs of the site."""


@pytest.fixture(scope="module")
def navigation() -> Callable[[str], list[dict[str, Any]]]:
    """Load the site's hook, which mkdocs loads by its path too."""
    spec = spec_from_file_location("hooks", ROOT / "docs" / "site" / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    found: Callable[[str], list[dict[str, Any]]] = module.navigation
    return found


def test_the_tabs_are_the_five_sections(navigation: Callable[[str], list[dict[str, Any]]]) -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert [title for tab in navigation(index) for title in tab] == TABS


def test_headings_in_a_section_are_groups_unless_they_have_no_pages(
    navigation: Callable[[str], list[dict[str, Any]]],
) -> None:
    index = """\
## A
* [`one`](one.md): text
### In A
* [Two](../two.md)
### Numbered
1. [Three](three.md)
## B
* [Four](four.md)
"""
    assert navigation(index) == [
        {"A": [{"one": "docs/one.md"}, {"In A": [{"Two": "two.md"}]}]},
        {"B": [{"Four": "docs/four.md"}]},
    ]


@pytest.mark.long("the site of the documentation is made of all pages")
def test_the_site_is_made_without_a_broken_link_and_needs_no_network() -> None:
    done = subprocess.run(
        [ROOT / "script" / "docs"], capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "SKIPPED" in done.stdout:
        pytest.skip(done.stdout.strip())
    site = (ROOT / done.stdout.splitlines()[-1]).parent
    pages = {
        page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")
    }
    listed = LISTED.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))
    expected = (normpath(f"docs/{name.replace('README', 'index')}.html") for name in listed)
    assert set(expected) <= pages.keys()
    assert [name for name, text in pages.items() if FETCHED.search(text)] == []
    index = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert '"docs/tutorial/first-plan.html"' in index
    moved = [name for name, text in pages.items() if "<p>This page moved to <a" in text]
    assert moved
    assert [name for name in moved if f'"{name}"' in index] == []
