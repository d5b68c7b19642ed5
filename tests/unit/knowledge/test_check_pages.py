"""Where the pages of checks are found, and how they are divided."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.architecture.sources import ROOT
from vgpu_cfg.knowledge import check_pages
from vgpu_cfg.knowledge.check_pages import make_page, page_folder, read_page
from vgpu_cfg.knowledge.verify_failures import FAILURES
from vgpu_cfg.planning.findings.codes import Code

if TYPE_CHECKING:
    import pytest

PAGE = """# VG301: too little memory

| Severity | Basis |
|---|---|
| error | recalled |

## What it means

```text
VG301  a
```

## Why

A guide.
"""


def test_a_page_is_divided_at_its_headings() -> None:
    page = make_page("VG301", PAGE)
    assert (page.code, page.title) == ("VG301", "too little memory")
    assert [section.heading for section in page.sections] == ["What it means", "Why"]
    assert page.sections[0].text == "```text\nVG301  a\n```"
    assert page.sections[1].text == "A guide."


def test_a_text_without_headings_is_a_page_without_sections() -> None:
    assert make_page("VG301", "nothing").sections == ()


def test_the_pages_are_those_of_this_checkout() -> None:
    assert page_folder() == ROOT / "docs" / "reference" / "checks"


def test_a_wheel_carries_the_pages_inside_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = tmp_path / "vgpu_cfg"
    (installed / "_checks").mkdir(parents=True)
    monkeypatch.setattr(check_pages, "__file__", str(installed / "knowledge" / "check_pages.py"))
    page_folder.cache_clear()
    try:
        assert page_folder() == installed / "_checks"
        (installed / "_checks").rmdir()
        page_folder.cache_clear()
        assert page_folder() is None
        assert read_page("VG301") is None
    finally:
        page_folder.cache_clear()


def test_a_code_without_a_page_has_none() -> None:
    assert read_page("VG999") is None


def test_every_page_is_read_with_its_parts() -> None:
    files = (ROOT / "docs" / "reference" / "checks").glob("VG*.md")
    pages = {path.stem: read_page(path.stem) for path in files}
    assert pages.keys() == {one.value for one in (*Code, *FAILURES)}
    for code, page in pages.items():
        assert page is not None
        assert page.title, code
        assert {"How to fix it", "How to be sure"} <= {section.heading for section in page.sections}, code
        assert all(section.text for section in page.sections), code
