"""Whether `verify` tells forty faults that were planted by somebody who had not read what it asks.

Each is planted alone, in a cluster that was applied and is healthy but for it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.command_line import ROOT, CommandLine
from tests.cli.planted import HALF, HEAD, PAIR, PLANTED, Change, Planted
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine

ESTATE = "estates/planted.yaml"
SECRETS = {"LICENCE_TOKEN": "token", "NGC_KEY": "key", "ESXI_PASSWORD": "lab"}
FAILED = 8
PAGE = ROOT / "docs" / "explanation" / "planted-faults.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"
TABLE_HEAD = "| Fault | Reported as |\n|---|---|\n"
IN_PLAIN_RUN = frozenset(
    {"port-down", "switch-mtu", "symbol-errors", "gid-moved", "gpu-memory-held", "power-cap", "disk-full"}
    | {"library-mismatch", "worker-not-at-boot", "wrong-sums"}
)

Applied = Callable[[str], Path]


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Applied:
    """Return what applies a plan, once; it returns the folder of what that left behind."""
    known: dict[str, Path] = {}

    def apply(plan: str) -> Path:
        if plan not in known:
            folder = tmp_path_factory.mktemp("applied")
            with pytest.MonkeyPatch.context() as patch:
                run = CommandLine(folder, patch)
                run.done("apply", plan, "--yes", **SECRETS)
                changed(run, _open_shells)
            known[plan] = folder / "state"
        return known[plan]

    return apply


@pytest.fixture
def cluster(vgpu_cfg: CommandLine, applied: Applied) -> Callable[[str], CommandLine]:
    def give(plan: str) -> CommandLine:
        shutil.copytree(applied(plan), vgpu_cfg.state_folder)
        vgpu_cfg.keep_id(plan)
        return vgpu_cfg

    return give


def rows_of(run: CommandLine, plan: str) -> tuple[int, list[tuple[str, str]]]:
    """Run verify; return its exit code, and of each failed row its code and what it says to be wrong.

    Remedies are left out: those name much that may be wrong.
    """
    ran = run("verify", plan, "--output", "json", **SECRETS)
    assert ran.code in (0, FAILED, 9), ran.told
    failed = [one for one in json.loads(ran.out)["results"] if one["state"] == "failed"]
    return ran.code, [
        (one["code"], " | ".join(str(one[key]) for key in ("title", "expected", "observed", "meaning")))
        for one in failed
    ]


def changed(run: CommandLine, change: Change) -> None:
    """Change what the lab keeps, behind everybody's back."""
    lab = run.lab(ESTATE)
    with lab.transaction():
        change(lab.state)
        for thing in (*lab.state.all(VirtualMachine), *lab.state.all(Host)):
            lab.state.touch(thing)


def _open_shells(state: LabState) -> None:
    """Start ssh on the hosts, as an administrator does who lets `verify` ask their nvidia-smi."""
    for host in state.all(Host):
        host.services["TSM-SSH"].running = True


def _marks(number: int, one: Planted) -> list[pytest.MarkDecorator]:
    later = (pytest.mark.exhaustive if number % 2 else pytest.mark.long)("the other planted faults")
    marks = [] if one.name in IN_PLAIN_RUN else [later]
    return marks if one.code else [*marks, pytest.mark.xfail(strict=True, reason="verify passes it")]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "one", [pytest.param(one, id=one.name, marks=_marks(number, one)) for number, one in enumerate(PLANTED)]
)
def test_it_is_told(cluster: Callable[[str], CommandLine], one: Planted) -> None:
    run = cluster(one.plan)
    changed(run, one.change)
    code, rows = rows_of(run, one.plan)
    assert code == FAILED
    told = [code for code, text in rows if all(re.search(word, text) for word in one.words)]
    assert one.code in told, rows


@pytest.mark.parametrize(
    "plan", [PAIR, *(pytest.param(each, marks=pytest.mark.long("healthy twins")) for each in (HEAD, HALF))]
)
def test_a_healthy_one_passes(cluster: Callable[[str], CommandLine], plan: str) -> None:
    assert rows_of(cluster(plan), plan) == (0, [])


def test_there_are_forty() -> None:
    assert len({one.name for one in PLANTED}) == len(PLANTED) == 40


def test_the_page_has_what_is_told() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    rows = [f"| {one.wrong} | {_link(one.code)} |\n" for one in PLANTED]
    made = f"{head}{BEGIN}\n{TABLE_HEAD}{''.join(rows)}{END}{tail}"
    if os.environ.get("REWRITE_PAGES"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made


def _link(code: str) -> str:
    return f"[{code}](../reference/checks/{code}.md)" if code else "not reported"
