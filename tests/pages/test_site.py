"""The documentation as a site, opened from the disk: it searches, shows its pictures and asks nobody."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from posixpath import normpath

import pytest

from tests.architecture.sources import ROOT
from tests.pages.browser import Chromium

FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="https?://|<link[^>]+rel="stylesheet"[^>]+href="https?://'
)
LISTED = re.compile(r"^\* \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)
SEARCH = """
new Promise((done) => {
  const open = document.getElementById("__search");
  open.checked = true;
  open.dispatchEvent(new Event("change"));
  const box = document.querySelector("input[data-md-component=search-query]");
  box.focus();
  box.value = "VG103";
  const look = (left) => {
    for (const kind of ["input", "keyup"]) box.dispatchEvent(new Event(kind, { bubbles: true }));
    const link = document.querySelector(".md-search-result__link");
    if (link || left === 0) done(link ? link.getAttribute("href") : "nothing is found");
    else setTimeout(look, 100, left - 1);
  };
  look(200);
})
"""
PICTURES = "[...document.querySelectorAll('.md-content img')].map((one) => one.naturalWidth)"


pytestmark = pytest.mark.long("the documentation as a site, built and opened: tests/pages/test_site.py")


@pytest.fixture(scope="module")
def site() -> Path:
    """Build the site; links that lead nowhere fail here."""
    built = subprocess.run(
        [ROOT / "script" / "docs"], capture_output=True, text=True, check=False, timeout=280
    )
    assert built.returncode == 0, built.stdout + built.stderr
    if "SKIPPED" in built.stdout:
        pytest.skip(built.stdout.strip())
    return (ROOT / built.stdout.splitlines()[-1]).parent


def test_it_has_the_pages_of_the_index_and_needs_no_network(site: Path) -> None:
    pages = {
        page.relative_to(site).as_posix(): page.read_text(encoding="utf-8") for page in site.rglob("*.html")
    }
    listed = LISTED.findall((ROOT / "docs" / "README.md").read_text(encoding="utf-8"))
    expected = (normpath(f"docs/{name.replace('README', 'index')}.html") for name in listed)
    assert set(expected) <= pages.keys()
    assert [name for name, text in pages.items() if FETCHED.search(text)] == []


def test_it_opens_from_the_disk_with_search_and_pictures(browser: Chromium, site: Path) -> None:
    before = len(browser.errors), len(browser.asked)
    browser.look(1200, is_dark=False)
    browser.open(site / "index.html")
    assert "docs/reference/checks/VG103.html" in browser.run(SEARCH)
    browser.open(site / "docs" / "tutorial" / "first-plan.html")
    widths = browser.run(PICTURES)
    assert widths
    assert all(widths)
    assert browser.errors[before[0] :] == []
    assert {address.split(":")[0] for address in browser.asked[before[1] :]} <= {"file", "data", "blob"}
