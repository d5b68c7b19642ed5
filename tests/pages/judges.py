"""What is asked of every page in a browser: nothing clipped, laid over or out of sight; axe-core's rules."""

from __future__ import annotations

import json
from pathlib import Path

from tests.extent import each
from tests.pages.browser import Chromium

LOOKS = each(
    [(400, True), (400, False), (1000, True), (1600, False), (1600, True), (1000, False)],
    "pages in a real Chromium: tests/pages",
    lambda width, is_dark: (width, is_dark) == (1000, False),
    one_of=3,
)
"""Widths in CSS pixels and colour schemes: each run looks at one, `--all` at the narrowest and widest too."""

# Text that is wider than its box is clipped, but for names that end in an ellipsis and have a title,
# and for what a region of its own scrolls.
_CLIPPED = """[...document.querySelectorAll("main *, header *, footer")].filter((one) =>
  one.checkVisibility() && [...one.childNodes].some((part) => part.nodeType === 3 && part.data.trim())
  && !one.closest("[title], .scroll") && !one.matches("option, select, .skip")
  && (one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline"
      || one.getBoundingClientRect().right > innerWidth + 1)).map((one) => one.outerHTML.slice(0, 120))"""

# Texts that share no ancestry and whose boxes meet, among what flows; what is fixed is above by intent.
_OVERLAPS = """(() => {
  const boxes = [...document.querySelectorAll("h1, h2, h3, p, label, li, button, .strip")].filter((one) =>
    one.checkVisibility() && !one.closest("#detail, .tools"))
    .map((one) => [one, one.getBoundingClientRect()])
    .filter(([, box]) => box.width && box.height).sort((a, b) => a[1].top - b[1].top);
  const met = [];
  for (let i = 0; i < boxes.length; i++) {
    for (let j = i + 1; j < boxes.length && boxes[j][1].top < boxes[i][1].bottom - 2; j++) {
      const [[a, one], [b, other]] = [boxes[i], boxes[j]];
      if (!a.contains(b) && !b.contains(a) && one.left < other.right - 1 && other.left < one.right - 1)
        met.push(a.textContent.slice(0, 40) + " | " + b.textContent.slice(0, 40));
    }
  }
  return met;
})()"""


def assert_laid_out(page: Chromium) -> None:
    """Nothing is wider than the page, clipped, or laid over something else."""
    # What the browser leaves out far from the window has no boxes to look at.
    page.run(
        "document.querySelectorAll('.host').forEach((one) => { one.style.contentVisibility = 'visible'; })"
    )
    page.drawn()
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    clipped, met = page.run(_CLIPPED), page.run(_OVERLAPS)
    assert (clipped, met) == ([], [])


def assert_accessible(page: Chromium, axe: str) -> None:
    """No rule of axe-core is violated."""
    page.run(f"{axe}; 0")
    found = page.run(
        "axe.run({resultTypes: ['violations']}).then((told) => told.violations.map((one) => "
        "[one.id, one.help, one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160))]))"
    )
    assert found == [], json.dumps(found, indent=1)


def assert_page(page: Chromium, path: Path, axe: str) -> None:
    """A page with all of it drawn is laid out and accessible, has no errors and asks for nothing."""
    page.errors.clear()
    page.asked.clear()
    page.open(path)
    page.run("dispatchEvent(new Event('beforeprint'))")
    page.drawn()
    assert_laid_out(page)
    assert_accessible(page, axe)
    assert (page.errors, page.asked) == ([], [path.as_uri()])
