"""The table of lies in the reference: each lie, how the lab behaves, what finds it, and what commands do."""

from __future__ import annotations

import os
from typing import Any

from tests.cli.command_line import ROOT
from tests.lies.acts import ACTS, APART, UNFOUND
from tests.lies.test_lies import outcomes
from vgpu_cfg.documents import parse_text
from vgpu_cfg.knowledge.beliefs import About, load_beliefs
from vgpu_cfg.lab.estates.lies import LIES
from vgpu_cfg.planning.doctor.trials import EXPERIMENTS
from vgpu_cfg.planning.doctor.tried import TRIALS

BELIEFS = tuple(load_beliefs().values())
PAGE = ROOT / "docs" / "reference" / "lies.md"
HEADS = {
    "plan": "`plan`",
    "apply": "`apply`",
    "edit": "changed plan",
    "status": "`status`",
    "verify": "`verify`",
    "rollback": "rollback",
    "destroy": "`destroy`",
}
"""The columns of commands, by their names in the rows of outcomes."""


def table() -> str:
    heads = ("Belief", "In the lab", "Found by", *HEADS.values(), "Scenes")
    rows = [heads, ("---",) * len(heads), *map(row_of, LIES)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def row_of(lie: str) -> tuple[str, ...]:
    row = {name: word.replace("right", "=") for name, word in outcomes()[lie].items()}
    told = (f"{name}: {row[name]}" for name in ACTS if name in row)
    link = f"[`{lie}`](beliefs.md#{lie})"
    return link, LIES[lie], found_by(lie), *(row.get(name, "-") for name in HEADS), ", ".join(told)


def found_by(lie: str) -> str:
    found = []
    if outcomes()[lie].get("doctor") == "finds it":
        found.append("doctor")
    elif lie in TRIALS:
        found.append("(doctor)")
    if lie not in UNFOUND and any(lie in one.beliefs for one in EXPERIMENTS):
        found.append("trial")
    return ", ".join(found)


def honest() -> dict[str, list[str]]:
    """Return the beliefs about vCenter and hosts about which the lab never lies, by the reason."""
    path = PAGE.parents[2] / "tests" / "lies" / "honest.yaml"
    found: Any = parse_text(path.read_text(encoding="utf-8"), path.name).root.value
    return dict(found)


def others() -> str:
    """Write the reasons with the beliefs of each, and count all by their subject."""
    rows = [
        f"| {reason} | {len(ids)} | {', '.join(f'[`{one}`](beliefs.md#{one})' for one in ids)} |"
        for reason, ids in honest().items()
    ]
    return "\n".join(["| Reason | Beliefs | IDs |", "|---|---|---|", *rows])


def counts() -> str:
    """Count the beliefs that the lab makes false, by their subject, and those that are found."""
    of_all = [
        f"{sum(one.about is about and one.id in LIES for one in BELIEFS)} of "
        f"{sum(one.about is about for one in BELIEFS)} beliefs about {name}"
        for about, name in ((About.VCENTER, "vCenter"), (About.HOST, "hosts"))
    ]
    found = sum(bool(found_by(lie)) for lie in LIES)
    return (
        f"The lab can make {' and '.join(of_all)} false.\n"
        f"`doctor` or `trial` can find {found} of all {len(LIES)} false beliefs."
    )


def test_every_belief_about_vcenter_and_hosts_is_a_lie_or_has_a_reason() -> None:
    reasoned = [one for ids in honest().values() for one in ids]
    assert len(reasoned) == len({*reasoned})
    wanted = {one.id for one in BELIEFS if one.about in {About.VCENTER, About.HOST}}
    assert {*reasoned} == wanted - LIES.keys()


def scenes() -> str:
    rows = [f"| {name} | {act.about} |" for name, act in ACTS.items()]
    return "\n".join(["| Scene | Commands |", "|---|---|", *rows])


def test_the_page_is_what_the_tests_found() -> None:
    text = PAGE.read_text(encoding="utf-8")
    made = text
    for name, part in (("counts", counts()), ("table", table()), ("scenes", scenes()), ("others", others())):
        before, _, rest = made.partition(f"<!-- {name} -->")
        _, _, after = rest.partition(f"<!-- /{name} -->")
        made = f"{before}<!-- {name} -->\n\n{part}\n\n<!-- /{name} -->{after}"
    if os.environ.get("REWRITE_PAGES") == "1":
        PAGE.write_text(made, encoding="utf-8")
        return
    assert text == made, "REWRITE_PAGES=1 writes it anew"


def test_the_table_is_complete() -> None:
    assert list(outcomes()) == list(LIES)
    assert all(act.beliefs for act in ACTS.values())
    columns = {*HEADS, "doctor"}
    assert all(
        (columns & row.keys()) == (set() if lie in APART else columns) for lie, row in outcomes().items()
    )
    assert {(lie, name) for lie, row in outcomes().items() for name in row if name in ACTS} == {
        (lie, name) for name, act in ACTS.items() for lie in act.beliefs
    }
