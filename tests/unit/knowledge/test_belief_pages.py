"""The pages about beliefs are written from their rows. `REWRITE_PAGES=1` writes them anew."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence

from tests.architecture.sources import ROOT
from vgpu_cfg.knowledge.beliefs import About, Belief, Confidence, Trial, load_beliefs
from vgpu_cfg.planning.doctor.trials import EXPERIMENTS
from vgpu_cfg.planning.doctor.tried import TRIALS

DOCS = ROOT / "docs"
SHORT = DOCS / "explanation" / "what-is-proven.md"
WHOLE = DOCS / "reference" / "beliefs.md"
MOST_WORDS = 1500
TITLES = {
    About.VCENTER: "vCenter",
    About.HOST: "Hosts",
    About.NIC: "NICs",
    About.HARDWARE: "Hardware",
    About.GUEST: "Guests",
    About.TOOLS: "Tools",
}
PART = "<!-- {0} -->\n\n{1}\n<!-- end -->"
HEAD = """# Beliefs

vgpu-cfg relies on these facts about systems that it does not control. For the terms, see
[what is proven](../explanation/what-is-proven.md). **Irreversible** marks a belief on which an irreversible
step relies. The code that relies on a belief refers to its ID.

A test generates this page from `vgpu_cfg/knowledge/rows/beliefs/`.
"""
BELIEFS = tuple(load_beliefs().values())
UNREAD = [one for one in BELIEFS if one.about is About.VCENTER and not one.confidence.needs_source]
TRIABLE = [one for one in UNREAD if one.trial is not Trial.NONE]
TRIED = TRIALS.keys() | {belief for one in EXPERIMENTS for belief in one.beliefs}


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines).replace("  |", " |")


def linked(text: str) -> str:
    """Link checks, decisions and addresses in a text; a bar would end a cell."""

    def decision(found: re.Match[str]) -> str:
        (page,) = (DOCS / "decisions").glob(f"{int(found[1]):04}-*.md")
        return f"[decision {found[1]}](../decisions/{page.name})"

    text = re.sub(r"https?://[^\s;,]*[\w/]", r"<\g<0>>", text.replace("|", r"\|"))
    text = re.sub(r"\bVG\d{3}\b", r"[\g<0>](../reference/checks/\g<0>.md)", text)
    return re.sub(r"\bdecision (\d+)", decision, text)


def counts(kinds: Sequence[Confidence] | Sequence[Trial], field: str) -> str:
    found = Counter((one.about, getattr(one, field)) for one in BELIEFS)
    rows: list[list[object]] = []
    for about in About:
        row = [found[about, kind] for kind in kinds]
        rows.append([TITLES[about], *row, sum(row)])
    total: list[object] = [sum(found[about, kind] for about in About) for kind in kinds]
    return table(["", *kinds, "all"], [*rows, ["All", *total, len(BELIEFS)]])


def is_risky(one: Belief) -> bool:
    return one in UNREAD and (one.irreversible or one.trial is Trial.NONE)


def row_of(one: Belief) -> list[str]:
    basis = f"{one.confidence}: {linked(one.source)}" if one.source else str(one.confidence)
    basis += f" ({one.releases})" if one.releases and one.releases not in one.source else ""
    trial = f"{one.trial}; **irreversible**" if one.irreversible else str(one.trial)
    name = f'<a id="{one.id}"></a>`{one.id}`'
    return [name, linked(one.statement), basis, linked(one.affects), linked(one.if_wrong), trial]


def whole_page() -> str:
    head = ["Belief", "Statement", "Confidence", "Affects", "If it is wrong", "Trial"]
    parts = [
        f"\n## {TITLES[about]}\n\n{table(head, [row_of(one) for one in BELIEFS if one.about is about])}"
        for about in About
    ]
    return HEAD + "".join(parts)


def short_page(page: str) -> str:
    """Write the generated parts of the short page; the rest is the page's own."""
    by_commands = sum(one.id in TRIED for one in UNREAD)
    numbers = (
        counts(list(Confidence), "confidence")
        + f"\nBy trial:\n\n{counts(list(Trial), 'trial')}"
        + f"\n{len(TRIABLE)} of the {len(UNREAD)} assumed or recalled beliefs about vCenter can be tried; "
        f"`doctor` and `trial` try {by_commands}.\n"
    )
    risky = "".join(
        f"* [{linked(one.statement)}](../reference/beliefs.md#{one.id}) ({one.trial})\n"
        for one in BELIEFS
        if is_risky(one)
    )
    return with_part(with_part(page, "counts", numbers), "risky", risky)


def with_part(page: str, name: str, text: str) -> str:
    pattern = re.compile(PART.format(name, ".*?"), re.DOTALL)
    assert pattern.search(page), name
    return pattern.sub(lambda _: PART.format(name, text), page)


def test_the_page_of_all_beliefs_is_written_from_the_rows() -> None:
    if os.environ.get("REWRITE_PAGES") == "1":
        WHOLE.write_text(whole_page(), encoding="utf-8")
    assert WHOLE.read_text(encoding="utf-8") == whole_page(), "REWRITE_PAGES=1 writes it anew"


def test_the_short_page_counts_the_rows() -> None:
    page = SHORT.read_text(encoding="utf-8")
    if os.environ.get("REWRITE_PAGES") == "1":
        SHORT.write_text(short_page(page), encoding="utf-8")
    page = SHORT.read_text(encoding="utf-8")
    assert short_page(page) == page, "REWRITE_PAGES=1 writes it anew"


def test_most_beliefs_about_vcenter_that_nobody_read_can_be_tried() -> None:
    assert len(TRIABLE) >= 0.8 * len(UNREAD)


def test_the_short_page_is_short() -> None:
    assert len(SHORT.read_text(encoding="utf-8").split()) <= MOST_WORDS


def test_a_count_that_is_older_than_the_rows_is_noticed() -> None:
    page = SHORT.read_text(encoding="utf-8")
    older = page.replace(f"| {len(BELIEFS)} |", "| 1 |")
    assert older != page
    assert short_page(older) == page
