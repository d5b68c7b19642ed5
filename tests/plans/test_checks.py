"""Which check is shown by which case: none is left out, and a check's page says what the tool prints.

`REWRITE_PAGES=1 pytest tests/plans/test_checks.py` writes the examples of pages anew, for you to read before
you commit them: each becomes the finding of a case that is most like it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from functools import cache
from pathlib import Path

import pytest

from tests.plans.planned import plan_of
from tests.plans.tables import CASES
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.layout.most import ALL
from vgpu_cfg.render.text.plan.findings import render_finding

TESTS = Path(__file__).parents[1]
PAGES = TESTS.parent / "docs" / "reference" / "checks"
IS_REWRITING = os.environ.get("REWRITE_PAGES") == "1"

ASSERTED_ELSEWHERE: dict[Code, str] = {
    Code.NOT_UNDONE: "cli/test_rollback.py: only a run that failed is taken back",
    Code.NOT_UNDONE_ON_PURPOSE: "unit/planning/test_rollback.py",
    Code.NO_WAY_BACK: "unit/planning/test_rollback.py: it is told where a rollback is asked for",
    Code.DRAIN_SWITCHES_OFF: "unit/planning/test_upkeep.py: only `drain` and `uncordon` move VMs for a host",
    Code.DRAIN_OTHERS: "unit/planning/test_upkeep.py",
    Code.DRAIN_STAYS: "unit/planning/test_upkeep.py",
    Code.DRAIN_UNSURE: "unit/planning/test_upkeep.py",
    Code.CANNOT_BE_IMPORTED: "unit/planning/test_import.py: only `import` takes VMs in",
    Code.KEEPS_OVERRIDES: "unit/planning/test_forget.py: only `forget` gives VMs up",
    Code.HOST_STILL_MARKED: "unit/planning/test_forget.py: only `forget` gives VMs up",
    Code.IMPORTED_MAY_NOT_GO: "unit/planning/test_import.py: only `destroy` deletes what it does not name",
    Code.LOCKED: "unit/planning/test_destroy.py: only `destroy` deletes what the plan file still names",
    Code.BROUGHT_EXPIRED: "cli/test_looks_first.py: it takes a secret",
    Code.EXPIRED: "unit/planning/test_expiry.py",
    Code.EXPIRES_SOON: "unit/planning/test_expiry.py",
    Code.EXPIRES_NEXT: "unit/planning/test_expiry.py",
    Code.API_TOO_OLD: "unit/planning/test_planner.py",
    Code.NOT_READ: "unit/planning/test_planner.py",
    Code.BOARD_UNKNOWN: "unit/planning/test_planner.py",
    Code.GUEST_ID_ODD: "unit/planning/test_planner.py",
    Code.COMPUTED_SETTING: "unit/planning/test_planner.py",
    Code.MMIO_TOO_SMALL: "unit/planning/test_planner.py",
    Code.DATACENTER_NOT_NAMED: "unit/planning/test_planner.py",
}
"""Codes that no case here shows, with the test below tests/ that does."""
WIDE = 110


@cache
def findings() -> Mapping[Code, list[Diagnostic]]:
    """Return every finding of every case, by its code."""
    found: dict[Code, list[Diagnostic]] = {}
    for case in CASES:
        for one in plan_of(case).diagnostics:
            found.setdefault(Code(one.code), []).append(one)
    return found


def test_every_check_is_shown_by_a_case_or_asserted_elsewhere() -> None:
    missing = set(Code) - findings().keys()
    assert sorted(missing) == sorted(ASSERTED_ELSEWHERE), "a code without a case, or an excuse too many"


@pytest.mark.parametrize("code", ASSERTED_ELSEWHERE, ids=lambda code: code.value)
def test_a_check_without_a_case_is_asserted_where_that_is_said(code: Code) -> None:
    path = TESTS / ASSERTED_ELSEWHERE[code].partition(":")[0]
    assert code.value in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "code", [code for code in Code if code not in ASSERTED_ELSEWHERE], ids=lambda code: code.value
)
def test_the_page_of_a_check_says_what_the_tool_says(code: Code) -> None:
    path = PAGES / f"{code}.md"
    before, _, rest = path.read_text(encoding="utf-8").partition("## What it means\n\n```text\n")
    shown, _, after = rest.partition("```")
    printed = findings()[code]
    if IS_REWRITING and not any(says(shown, found) for found in printed):
        shown = example(max(printed, key=lambda found: likeness(shown, found)), name_on(shown))
        path.write_text(f"{before}## What it means\n\n```text\n{shown}```{after}", encoding="utf-8")
    assert any(says(shown, found) for found in printed), [words_of(found) for found in printed]


def words_of(found: Diagnostic) -> str:
    return " ".join(plain(render_finding(found, WIDE, most=ALL)).split())


def name_on(shown: str) -> str:
    """Return whom the example of a page is about."""
    name = re.match(r"VG\d{3}  (\S+(?:, \S+)*): ", shown)
    assert name, f"an example begins with its code, and a name with a colon: {shown}"
    return name[1]


def says(shown: str, found: Diagnostic) -> bool:
    """Whether an example is this finding word for word; it may give what it is about another name."""
    words = " ".join(shown.split())
    return words_of(found) in (words, _renamed(words, name_on(shown), found.subject.name))


def _renamed(text: str, old: str, new: str) -> str:
    return re.sub(rf"(?<![\w.-]){re.escape(old)}(?![\w{{])", lambda _: new, text)


def likeness(shown: str, found: Diagnostic) -> float:
    return SequenceMatcher(None, " ".join(shown.split()), words_of(found), autojunk=False).ratio()


def example(found: Diagnostic, name: str) -> str:
    """Lay a finding out as pages do, with the page's name, unless "a" may be a VM in it or the word."""
    own = found.subject.name
    told = f"{found.text} {found.remedy}"
    is_plain = all(len(one) > 1 or _renamed(told, one, "") == told for one in (own, name))
    shown = name if is_plain else own
    renamed = found.model_copy(
        update={
            "subject": found.subject.model_copy(update={"name": shown}),
            "message": _renamed(found.message, own, shown),
            "remedy": _renamed(found.remedy, own, shown),
        }
    )
    lines = plain(render_finding(renamed, WIDE, most=ALL)).splitlines()
    return "".join(f"{line.removeprefix('  ')}\n" for line in lines)
