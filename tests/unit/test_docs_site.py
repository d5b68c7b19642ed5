"""The sections of the documentation's site. tests/pages/test_site.py builds and opens it."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
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
