"""The documentation as a site, opened from the disk: it searches, shows its pictures and asks nobody."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.pages.browser import Chromium

SITE = ROOT / ".cache" / "docs" / "site"
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


@pytest.fixture(scope="module")
def site() -> Path:
    """Build the site anew, where its builder was fetched before; links that lead nowhere fail here."""
    if not (SITE.parent / "installed").exists():
        pytest.skip("the builder of the site is not here: script/docs fetches it")
    built = subprocess.run(
        [str(ROOT / "script" / "docs")], cwd=ROOT, capture_output=True, text=True, check=False, timeout=240
    )
    assert built.returncode == 0, built.stderr
    return SITE


@pytest.mark.long("the documentation as a site, built and opened: tests/pages/test_site.py")
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
