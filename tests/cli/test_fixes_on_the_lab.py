"""A fix is judged by everything it touches: after it each VM that ran runs, or starts again, as was said.

`fixes_on_the_lab.yaml` tells what came of each refused case in which something runs, fix by fix;
`REWRITE_FIXES=1` with `--all` writes it anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.fixes_on_the_lab import judge
from tests.extent import each
from tests.plans.planned import inventory_of, plan_of
from tests.plans.tables import CASES, TABLE_OF
from vgpu_cfg.documents import dump, read_document

TABLE = Path(__file__).parent / "fixes_on_the_lab.yaml"
OUTCOMES: dict[str, list[str]] = read_document(TABLE, name=TABLE.name).data if TABLE.exists() else {}
REWRITES = bool(os.environ.get("REWRITE_FIXES"))
JUDGED = "as was said"


def is_soon(case: str) -> bool:
    return case in SOON


SOON = {case for case in OUTCOMES if TABLE_OF[case].stem == "others_moved"}
"""What every run tries: the cases that are about VMs of others."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "case", each([(case,) for case in OUTCOMES], "fixes that are carried out on the lab", is_soon, one_of=30)
)
def test_vms_of_others_fare_as_was_said(case: str, vgpu_cfg: CommandLine) -> None:
    judged = judge(case, vgpu_cfg)
    assert [text for one in judged for text in one.wrong] == []
    assert [str(one) for one in judged] == OUTCOMES[case]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
@pytest.mark.skipif(REWRITES, reason="the table is being written")
def test_every_refused_case_in_which_something_runs_is_in_the_table() -> None:
    assert set(OUTCOMES) == set(_refused_with_something_running())


def _refused_with_something_running() -> list[str]:
    refused = (case for case in CASES if plan_of(case).errors)
    return [case for case in refused if any(vm.is_on for vm in inventory_of(case).vms)]


@pytest.mark.timeout(1800)
@pytest.mark.skipif(not REWRITES, reason="REWRITE_FIXES=1 writes the table")
def test_the_table_is_written_anew(vgpu_cfg: CommandLine) -> None:
    found = {case: judge(case, vgpu_cfg) for case in _refused_with_something_running()}
    TABLE.write_text(
        dump({case: [str(one) for one in all_] for case, all_ in found.items()}), encoding="utf-8"
    )
    assert {case: one.wrong for case, all_ in found.items() for one in all_ if one.wrong} == {}


def test_the_docs_count_who_was_judged() -> None:
    every = [one for outcomes in OUTCOMES.values() for one in outcomes]
    judged = [int(one.split()[0]) for one in every if one.endswith(JUDGED)]
    others = len(every) - len(judged)
    page = (ROOT / "docs" / "explanation" / "fixes.md").read_text(encoding="utf-8")
    told = f"{len(judged)} fixes of {len(OUTCOMES)} cases were applied, with {sum(judged)} running VMs"
    assert f"{told}: 0 results differed" in " ".join(page.split())
    assert f"{others} fixes were not applied" in " ".join(page.split())
