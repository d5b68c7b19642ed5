"""Every check has its page, every page its check, and both say the same."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from vgpu_cfg.knowledge.verify_failures import FAILURES, Failure
from vgpu_cfg.planning.findings.checks import CHECKS, Basis, Check, Code

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference" / "checks"
INDEX = FOLDER / "README.md"
PAGES = sorted(path for path in FOLDER.glob("*.md") if path != INDEX)
SECTIONS = ["What it says", "Why it matters", "How to be sure", "How to fix it", "Source"]
FACTS = "| Severity | Basis | Can be relaxed |"
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
LOWER = {"error": "warning", "warning": "info"}
MOST_WIDTH = 120
ALL: list[Check | Failure] = [*CHECKS.values(), *FAILURES.values()]


class Page(NamedTuple):
    """A page, taken apart. `facts` are the cells of its table, `sections` its text by heading."""

    heading: str
    facts: list[str]
    sections: dict[str, str]


def read(path: Path) -> Page:
    head, *pieces = re.split(r"^## (.+)$", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    heading, _, columns, _, facts = head.splitlines()[:5]
    assert columns == FACTS
    cells = [cell.strip() for cell in facts.strip("|").split("|")]
    return Page(heading, cells, dict(zip(pieces[::2], pieces[1::2], strict=True)))


def is_relaxable(check: Check | Failure) -> bool:
    return bool(check.threshold) if isinstance(check, Failure) else check.is_relaxable


def relaxing(check: Check | Failure) -> str:
    """Spell what the page of a check says of relaxing it."""
    if isinstance(check, Failure):
        is_share = check.threshold in ("host_memory", "gpu_memory", "busbw", "loss")
        value = "SHARE" if is_share else "NUMBER"
        return f"yes: `--threshold {check.threshold}={value}`" if check.threshold else "no"
    if not check.is_relaxable:
        return "no"
    lower = LOWER.get(check.severity)
    return f"yes: `checks: {{{check.code}: {lower}}}`" if lower else "yes, but nothing is below info"


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as links to them do."""
    text = page.read_text(encoding="utf-8")
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    }


def test_every_check_has_a_page_and_every_page_a_check() -> None:
    assert [page.stem for page in PAGES] == sorted(check.code.value for check in ALL)
    assert set(CHECKS) == set(Code)


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.code.value)
def test_the_page_says_what_the_table_says(check: Check | Failure) -> None:
    page = read(FOLDER / f"{check.code}.md")
    assert page.heading == f"# {check.code}: {check.title}"
    assert page.facts == [check.severity, check.basis, relaxing(check)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_has_its_sections_and_something_in_each(path: Path) -> None:
    page = read(path)
    assert list(page.sections) == SECTIONS
    assert all(text.strip() for text in page.sections.values())


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_example_is_of_this_check(path: Path) -> None:
    info, message = FENCE.findall(read(path).sections["What it says"])[0]
    assert info == "text"
    assert message.startswith(f"{path.stem}  ")


@pytest.mark.parametrize("check", ALL, ids=lambda check: check.code.value)
def test_the_source_says_how_sure_it_is(check: Check | Failure) -> None:
    source = read(FOLDER / f"{check.code}.md").sections["Source"].lower()
    assert check.basis in source or (check.basis is Basis.FIELD and "field report" in source)


def test_no_two_pages_share_a_reason() -> None:
    reasons = [read(path).sections["Why it matters"].strip() for path in PAGES]
    assert len(set(reasons)) == len(reasons)


def test_the_index_lists_every_check_as_the_table_has_it() -> None:
    rows = [line for line in INDEX.read_text(encoding="utf-8").splitlines() if line.startswith("| [VG")]
    assert rows == [
        f"| [{check.code}]({check.code}.md) | {check.title} | {check.severity} | {check.basis} "
        f"| {'yes' if is_relaxable(check) else 'no'} |"
        for check in ALL
    ]


@pytest.mark.parametrize("path", [*PAGES, INDEX], ids=lambda path: path.stem)
def test_links_lead_somewhere(path: Path) -> None:
    broken = []
    for link in LINK.findall(path.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        page = (path.parent / target).resolve() if target else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("path", [*PAGES, INDEX], ids=lambda path: path.stem)
def test_lines_are_not_too_long_to_read(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > MOST_WIDTH and not line.startswith("|")] == []
