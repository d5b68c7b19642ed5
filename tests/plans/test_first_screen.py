"""The first screen of a plan for hundreds of hosts: at most 50 lines, however unlike the hosts are."""

from __future__ import annotations

from functools import cache
from itertools import cycle, islice
from typing import Any

import pytest

from tests.plans.planned import plan_of
from tests.plans.tables import CASES
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.layout.most import MOST_LINES
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan

HOSTS, SETS = 300, 6
MERGED = (
    "changes",
    "placements",
    "diagnostics",
    "contests",
    "canaries",
    "unknown",
    "hosts_in_sync",
    "disturbed",
)
"""The lists of a plan that are joined."""


@cache
def of_hosts() -> list[str]:
    """Return the cases whose plans change hosts: to plan them takes seconds, and no import may take them."""
    return [case for case in CASES if any(change.subject.kind == "host" for change in plan_of(case).changes)]


def copy_of(plan: Plan, number: int) -> dict[str, Any]:
    """Return a plan with names and ids of its own."""
    kinds = (*plan.changes, *plan.diagnostics)
    names = {one.subject.name for one in kinds} | {change.id for change in plan.changes}
    names |= {*plan.hosts_in_sync, *(one.host.name for one in plan.unknown)}

    def renamed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: renamed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [renamed(one) for one in value]
        return f"c{number:03}-{value}" if isinstance(value, str) and value in names else value

    return {key: renamed(value) for key, value in plan.model_dump(mode="json").items()}


def together(cases: list[str]) -> Plan:
    """Return one plan of the copies of many."""
    copies = [copy_of(plan_of(case), number) for number, case in enumerate(cases)]
    whole = {key: [one for copy in copies for one in copy.get(key, [])] for key in (*MERGED, "blocked")}
    return Plan.model_validate({**copies[0], **whole})


@pytest.mark.sampled(3)
@pytest.mark.parametrize("start", range(SETS))
def test_a_plan_of_300_hosts_fits_a_screen(start: int) -> None:
    plan = together(list(islice(cycle(of_hosts()[start::SETS]), HOSTS)))
    assert len({change.subject.name for change in plan.changes if change.subject.kind == "host"}) >= HOSTS
    for width in (80, 110):
        lines = render_plan(plan, width, PlanShown("vgpu-cfg apply plan.yaml"))
        assert len(lines) <= MOST_LINES, plain(lines)
    assert "-v shows all" in plain(lines)


@pytest.mark.parametrize("number", range(3))
def test_a_plan_of_a_few_hosts_hides_nothing_more(number: int) -> None:
    case = of_hosts()[number]
    few = plain(render_plan(together([case] * 3), 110))
    assert few.count("(-v shows all)") == plain(render_plan(plan_of(case), 110)).count("(-v shows all)")
