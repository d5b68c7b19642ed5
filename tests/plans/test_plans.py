"""Every folder here is a case: a plan file and an inventory in, a plan out."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.plans.guest_rows import with_guests
from tests.plans.simulator import carry_out, fullest, least_loaded
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.documents import read_document
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import Plan
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.checks import CHECKS
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs" / "reference" / "checks"
CASES = sorted(path.parent.name for path in HERE.glob("*/plan.yaml"))
IS_REWRITING = os.environ.get("REWRITE_PLANS") == "1"


def can_be_carried_out(case: str) -> bool:
    """Whether a case's expected plan can be tried: no error, no part of a plan, and nothing left to people.

    A plan that supposes what a closed shell did not tell (VG524) is made anew once the shell is open.
    """
    path = HERE / case / "plan.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    findings = recorded.get("diagnostics", [])
    kinds = {change["kind"] for change in recorded.get("changes", ())}
    is_stated = not any(found["severity"] == "error" or found["code"] == "VG524" for found in findings)
    return is_stated and not kinds & {"manual_step", "change_network"} and not options_of(case).only


def warns_of_the_order(case: str) -> bool:
    """Whether the expected plan says itself (VG116) that ESXi's way of spreading vGPUs may strand one."""
    recorded = HERE / case / "plan.json"
    return recorded.exists() and "VG116" in recorded.read_text(encoding="utf-8")


def inventory_of(case: str) -> Inventory:
    rows = read_document(HERE / case / "inventory.yaml").data
    desired = load_plan(HERE / case / "plan.yaml").desired
    return with_guests(desired, make_inventory(rows), rows.get("vms") or {})


def options_of(case: str) -> PlanOptions:
    path = HERE / case / "options.yaml"
    rows: dict[str, Any] = dict(read_document(path).data) if path.exists() else {}
    rows.update({key: tuple(rows[key]) for key in ("only", "delete") if key in rows})
    return PlanOptions(**rows)


def plan_of(case: str, observed: Inventory, options: PlanOptions | None = None) -> Plan:
    desired = load_plan(HERE / case / "plan.yaml").desired
    return make_plan(desired, observed, load_catalog(), options or options_of(case))


def written(plan: Plan) -> str:
    """Leave out what the plan file says itself, what is as always, and what goes over the wire for an edit.

    That is compared with the wire itself: tests/properties/test_shown_is_run.py.
    """
    data = plan.model_dump(mode="json", exclude={"desired", "read_at", "target"}, exclude_defaults=True)
    for change, model in zip(data.get("changes", ()), plan.changes, strict=True):
        change["kind"] = model.kind
        change.pop("undo", None)
        for edit in change.get("edits", ()):
            edit.pop("sets", None)
    return json.dumps(data, indent=1, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("case", CASES)
def test_plan_is_as_expected(case: str) -> None:
    found = written(plan_of(case, inventory_of(case)))
    expected = HERE / case / "plan.json"
    if IS_REWRITING:
        expected.write_text(found, encoding="utf-8")
    assert found == expected.read_text(encoding="utf-8")


TRIED = [case for case in CASES if can_be_carried_out(case)]


@pytest.mark.parametrize(
    ("case", "choose"),
    [
        *((case, fullest) for case in TRIED),
        *((case, least_loaded) for case in TRIED if not warns_of_the_order(case)),
    ],
)
def test_nothing_is_left_to_do_after_it(case: str, choose: Any) -> None:
    observed = inventory_of(case)
    plan = plan_of(case, observed)
    options = options_of(case)
    after = carry_out(plan, observed, choose, options.fingerprints)
    again = plan_of(case, after, replace(options, delete=()))  # they are gone, and cannot be named again
    assert not again.changes
    assert not again.errors


@pytest.mark.parametrize("case", CASES)
def test_a_saved_plan_is_the_same_plan(case: str) -> None:
    plan = plan_of(case, inventory_of(case))
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.digest == plan.digest


def test_the_cases_that_the_statements_name_are_there() -> None:
    told = (HERE / "README.md").read_text(encoding="utf-8").partition("statement by statement")[2]
    names = set(re.findall("`([a-z0-9.]+(?:-[a-z0-9.]+)+)`", told)) - {"nvidia-smi"}
    malformed = {path.stem for path in (HERE.parent / "malformed").glob("*.yaml")}
    assert len(names) > 100
    assert sorted(names - set(CASES) - malformed) == []


ASSERTED_ELSEWHERE: dict[Code, str] = {
    Code.UNDECIDED: "unit/planning/test_placement.py: the solver decides all that is small enough to show",
    Code.LOCKED: "unit/planning/test_destroy.py: only `destroy` deletes what the plan file still names",
    Code.CHECK_NOT_RELAXABLE: "unit/planning/test_findings.py",
    Code.EXPIRED: "unit/planning/test_planner.py",
    Code.NOTHING_SELECTED: "unit/planning/test_planner.py",
    Code.API_TOO_OLD: "unit/planning/test_planner.py",
    Code.SUSPENDED: "unit/planning/test_planner.py",
    Code.NOT_READ: "unit/planning/test_planner.py",
    Code.BOARD_UNKNOWN: "unit/planning/test_planner.py",
    Code.OTHER_SERIES: "unit/planning/test_planner.py",
    Code.NOT_AN_ESXI_BOARD: "unit/planning/test_planner.py",
    Code.POWERED_OFF_CLAIM: "unit/planning/test_planner.py",
    Code.SYSTEM_ID_UNKNOWN: "unit/planning/test_planner.py",
    Code.NOT_A_TEMPLATE: "unit/planning/test_planner.py",
    Code.GUEST_ID_ODD: "unit/planning/test_planner.py",
    Code.COMPUTED_SETTING: "unit/planning/test_planner.py",
    Code.MMIO_TOO_SMALL: "unit/planning/test_planner.py",
    Code.MANY_CPUS: "unit/planning/test_planner.py",
    Code.TOO_MANY_NICS: "unit/planning/test_planner.py",
    Code.ELSEWHERE: "unit/planning/test_planner.py",
    Code.NUMA_NODE_ABSENT: "unit/planning/test_planner.py",
    Code.DATASTORE_SPACE: "unit/planning/test_planner.py",
    Code.DATASTORE_INACCESSIBLE: "unit/planning/test_planner.py",
    Code.POOL_NOT_FOUND: "unit/planning/test_planner.py",
    Code.DATACENTER_NOT_NAMED: "unit/planning/test_planner.py",
}
"""Codes that no case here shows, with the test below tests/ that does."""


def test_every_check_is_shown_by_a_case_or_asserted_elsewhere() -> None:
    written_plans = (HERE / case / "plan.json" for case in CASES)
    shown = {
        found["code"]
        for path in written_plans
        for found in json.loads(path.read_text(encoding="utf-8")).get("diagnostics", [])
    }
    assert sorted(CHECKS.keys() - shown) == sorted(ASSERTED_ELSEWHERE), (
        "a code without a case, or an excuse too many"
    )


FIRST_OF_HOSTS = Code.HOST_NOT_MATCHED
"""From here on a page's example is word for word what one of the cases prints."""


@pytest.mark.parametrize(
    "code", [code for code in Code if code.value >= FIRST_OF_HOSTS.value], ids=lambda code: code.value
)
def test_the_page_of_a_check_of_hosts_says_what_the_tool_says(code: Code) -> None:
    page = (PAGES / f"{code}.md").read_text(encoding="utf-8")
    shown = " ".join(page.partition("```text")[2].partition("```")[0].split())
    printed = [
        f"{found['code']} {found['subject']['name']} {found['message']} -> {found['remedy']}"
        for case in CASES
        for found in json.loads((HERE / case / "plan.json").read_text(encoding="utf-8")).get(
            "diagnostics", []
        )
        if found["code"] == code
    ]
    assert shown in printed


@pytest.mark.parametrize("code", ASSERTED_ELSEWHERE, ids=lambda code: code.value)
def test_a_check_without_a_case_is_asserted_where_that_is_said(code: Code) -> None:
    path = HERE.parent / ASSERTED_ELSEWHERE[code].partition(":")[0]
    assert code.value in path.read_text(encoding="utf-8")
