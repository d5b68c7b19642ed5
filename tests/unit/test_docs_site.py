"""The documentation as a site: every link leads somewhere, and nothing is fetched."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FETCHED = re.compile(
    r'<(?:script|img|iframe)[^>]+src="https?://|<link[^>]+rel="stylesheet"[^>]+href="https?://'
)
LISTED = re.compile(r"^\* \[[^\]]+\]\(([^)#]+)\.md\)", re.MULTILINE)


@pytest.mark.long("the site of the documentation is made of all pages")
@pytest.mark.timeout(300)
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
    assert {f"docs/{name.replace('README', 'index')}.html" for name in listed} <= pages.keys()
    assert [name for name, text in pages.items() if FETCHED.search(text)] == []
    assert (site / "search" / "search_index.js").exists()
