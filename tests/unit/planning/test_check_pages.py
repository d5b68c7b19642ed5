"""Every check has its page, and the head of each page and the index are written from the codes.

`REWRITE_PAGES=1` writes them anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from vgpu_cfg.knowledge.verify_failures import FAILURES, Failure
from vgpu_cfg.planning.findings.codes import Basis, Code

FOLDER = Path(__file__).resolve().parents[3] / "docs" / "reference" / "checks"
INDEX = FOLDER / "README.md"
PAGES = {path.stem: path for path in sorted(FOLDER.glob("*.md")) if path != INDEX}
SECTIONS = ["How to fix it", "What it means", "How to be sure", "Why"]
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?![a-z]+:)([^)\s]+)\)")
ROW = re.compile(r"^\| \[(VG\d+)\].*$", re.MULTILINE)
LOWER = {"error": "warning", "warning": "info"}
EXAMPLE_OR_TABLE = re.compile(r"^```text\n.*?^```$|^\|[^\n]*$", re.MULTILINE | re.DOTALL)
MOST_WIDTH = 120
MOST_WORDS = 150
ALL: dict[str, Code | Failure] = {str(code): code for code in Code} | {
    str(code): failure for code, failure in FAILURES.items()
}


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def sections_of(code: str) -> dict[str, str]:
    """Return the text of a page by its headings."""
    _, *pieces = re.split(r"^## (.+)$", text_of(PAGES[code]), flags=re.MULTILINE)
    return dict(zip(pieces[::2], pieces[1::2], strict=True))


def is_relaxable(check: Code | Failure) -> bool:
    return bool(check.threshold) if isinstance(check, Failure) else check.is_relaxable


def relaxing(code: str, check: Code | Failure) -> str:
    """Spell what the page of a check says of relaxing it."""
    if isinstance(check, Failure):
        is_share = check.threshold in ("host_memory", "gpu_memory", "busbw", "loss")
        value = "SHARE" if is_share else "NUMBER"
        return f"yes: `--threshold {check.threshold}={value}`" if check.threshold else "no"
    if not check.is_relaxable:
        return "no"
    lower = LOWER.get(check.severity)
    return f"yes: `checks: {{{code}: {lower}}}`" if lower else "yes, but nothing is below info"


def head_of(code: str, check: Code | Failure) -> str:
    """Write what a page begins with."""
    return (
        f"# {code}: {check.summary}\n\n| Severity | Basis | Can be relaxed |\n|---|---|---|\n"
        f"| {check.severity} | {check.basis} | {relaxing(code, check)} |\n\n"
    )


def row_of(code: str, check: Code | Failure) -> str:
    """Write the row of a check in the index."""
    relaxed = "yes" if is_relaxable(check) else "no"
    return f"| [{code}]({code}.md) | {check.summary} | {check.severity} | {check.basis} | {relaxed} |"


def kept_or_rewritten(path: Path, wanted: str) -> bool:
    """Whether a page is as it is written; with REWRITE_PAGES it is."""
    if os.environ.get("REWRITE_PAGES"):
        path.write_text(wanted, encoding="utf-8")
    return text_of(path) == wanted


def anchors(page: Path) -> set[str]:
    """Name the headings of a page as links to them do, and the places that are marked."""
    text = text_of(page)
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    marked = re.findall(r'<a id="([^"]+)">', text)
    return {*marked, *(re.sub(r"[^\w -]", "", one.lower()).replace(" ", "-") for one in headings)}


def test_every_check_has_a_page_and_every_page_a_check() -> None:
    assert list(PAGES) == sorted(ALL)


def test_the_head_of_each_page_is_written_from_its_code() -> None:
    begun = {code: text_of(path).partition("## ") for code, path in PAGES.items()}
    wanted = {code: head_of(code, ALL[code]) + "".join(begun[code][1:]) for code in begun}
    assert [code for code, path in PAGES.items() if not kept_or_rewritten(path, wanted[code])] == []


def test_the_index_is_written_from_the_codes() -> None:
    text = text_of(INDEX)
    assert ROW.findall(text) == list(ALL)
    assert kept_or_rewritten(INDEX, ROW.sub(lambda row: row_of(row[1], ALL[row[1]]), text))


def test_each_page_has_its_sections_and_something_in_each() -> None:
    assert [code for code in PAGES if list(sections_of(code)) != SECTIONS] == []
    assert [code for code in PAGES if not all(text.strip() for text in sections_of(code).values())] == []


def test_each_example_is_of_its_check() -> None:
    begun = {code: FENCE.findall(sections_of(code)["What it means"])[0] for code in PAGES}
    assert [
        code for code, (info, says) in begun.items() if info != "text" or not says.startswith(f"{code}  ")
    ] == []


def test_a_page_says_which_facts_are_neither_documented_nor_observed() -> None:
    words = {Basis.RECALLED: r"not (been )?verified", Basis.FIELD: "field"}
    unsure = {code: words[Basis(check.basis)] for code, check in ALL.items() if check.basis in words}
    reasons = {code: " ".join(sections_of(code)["Why"].lower().split()) for code in unsure}
    assert [code for code, word in unsure.items() if not re.search(word, reasons[code])] == []


def test_no_two_pages_share_a_meaning() -> None:
    reasons = [sections_of(code)["What it means"].strip() for code in PAGES]
    assert len(set(reasons)) == len(reasons)


def test_a_page_has_few_words() -> None:
    prose = {code: EXAMPLE_OR_TABLE.sub("", "".join(sections_of(code).values())) for code in PAGES}
    counted = {code: len(re.sub(r"```\w*", "", text).split()) for code, text in prose.items()}
    assert {code: words for code, words in counted.items() if words > MOST_WORDS} == {}


def test_links_lead_somewhere() -> None:
    def is_broken(path: Path, link: str) -> bool:
        target, _, anchor = link.partition("#")
        page = (path.parent / target).resolve() if target else path
        return not page.exists() or bool(anchor and anchor not in anchors(page))

    pages = (*PAGES.values(), INDEX)
    assert [
        (path.name, link) for path in pages for link in LINK.findall(text_of(path)) if is_broken(path, link)
    ] == []


def test_lines_are_not_too_long_to_read() -> None:
    assert [
        (path.name, line)
        for path in (*PAGES.values(), INDEX)
        for line in text_of(path).splitlines()
        if len(line) > MOST_WIDTH and not line.startswith("|")
    ] == []
