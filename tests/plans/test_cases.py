"""Each case of the tables: its plan is as the table says, loads as it was saved, and leaves nothing to do."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from tests.plans.by_table import by_table
from tests.plans.compared import differences
from tests.plans.planned import after_of, desired_of, inventory_of, options_of, plan_of
from tests.plans.simulator import carry_out, least_loaded
from tests.plans.tables import CASES, case_of
from tests.sections import left_over, section
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import (
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    ExitMaintenance,
    ManualStep,
    RebootHost,
    RestartService,
)
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.schema import plan_json_schema
from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.execution.run.scheduler import Scheduler
from vgpu_cfg.model.observed.host_facts import parse_remembered
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.canaries import plan_canaries
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.hosts.assess import to_keep
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.sync import is_in_sync

OF_PLANS = Draft202012Validator(plan_json_schema())
TOLD = Path(__file__).with_name("transcripts.txt")


@pytest.mark.parametrize("case", CASES)
def test_a_plan_is_as_its_table_says(case: str) -> None:
    found = differences(case_of(case).expected, plan_of(case), inventory_of(case))
    assert not found, f"{case} comes to something else, which its table would say so:\n\n{found}"
    told = told_of(plan_of(case))
    assert told == section(TOLD, case, told)


def told_of(plan: Plan) -> str:
    """Return a plan's digest, its changes and what else it says, word by word.

    `script/same-as` shows how two plans differ whose digests do.
    """
    lines = [f"{plan.digest} {', '.join(change.id for change in plan.changes)}".rstrip()]
    lines += [
        f"{found.severity.value} {found.code} {found.subject.kind} {found.subject.name}: {found.message}"
        f"{''.join(f' | {one.subject}: {one.reason}' for one in found.hindrances)}"
        f"{f' -> {found.remedy}' if found.remedy else ''}"
        for found in plan.diagnostics
    ]
    lines += [f"disturbed: {one.experience.value} {one.subject.name}: {one.note}" for one in plan.disturbed]
    lines += [f"canary: {', '.join(one.names)} before {', '.join(one.others)}" for one in plan.canaries]
    lists = {
        "in sync": (*plan.in_sync, *plan.hosts_in_sync),
        "orphans": plan.orphans,
        "blocked": sorted(plan.blocked),
        "one by one": [f"{one.host_moid}: {', '.join(sorted(one.starts))}" for one in plan.contests],
        "unknown": [f"{one.host.name}: {len(one.settings)}, {one.remedy}" for one in plan.unknown],
    }
    lines += [f"{name}: {'; '.join(values)}" for name, values in lists.items() if values]
    return "\n".join(lines)


def test_no_section_is_left_over() -> None:
    assert left_over(TOLD, CASES) == []


@pytest.mark.sampled(4)
@by_table()
def test_a_saved_plan_is_the_same_plan(case: str) -> None:
    plan = plan_of(case)
    again = Plan.model_validate_json(plan.model_dump_json())
    assert again == plan
    assert again.digest == plan.digest
    OF_PLANS.validate(plan.as_saved())


def can_be_carried_out(case: str) -> bool:
    """Whether a plan can be tried: no error, the whole of it, and nothing left to people.

    A plan that changes something and does not know what closed shells would tell is made anew with them open.
    """
    plan = plan_of(case)
    by_hand = any(isinstance(change, ManualStep | ChangeNetwork) for change in plan.changes)
    return not (plan.errors or by_hand or (plan.changes and plan.unknown) or options_of(case).only)


def codes_of(plan: Plan) -> set[str]:
    return {found.code for found in plan.diagnostics}


@pytest.mark.sampled(4)
@by_table()
def test_nothing_is_left_to_do_after_it(case: str) -> None:
    if not can_be_carried_out(case):
        return  # how many are tried, the next test counts
    plan, options = plan_of(case), options_of(case)
    # A plan that warns (VG116) says itself that ESXi's way of spreading vGPUs may strand one.
    afters = [after_of(case)]
    if "VG116" not in codes_of(plan):
        afters.append(carry_out(plan, inventory_of(case), least_loaded, options.fingerprints))
    for after in afters:
        gone = replace(options, delete=(), rotate=())  # neither is done twice
        again = make_plan(desired_of(case), after, load_catalog(), gone)
        assert not again.changes
        assert not again.errors


@by_table()
def test_what_was_read_of_hosts_after_it_stays_known(case: str) -> None:
    """Once the shells are closed the plan is the same: nothing is to be done, and nothing is unknown."""
    if not case_of(case).plan.get("hosts") or not can_be_carried_out(case) or plan_of(case).unknown:
        return
    desired, options, catalog = desired_of(case), replace(options_of(case), delete=()), load_catalog()
    after = after_of(case)
    kept = to_keep(desired, after, catalog, options)
    again = make_plan(desired, with_closed_shells(after, kept), catalog, options)
    assert not again.changes
    assert not again.unknown
    assert is_in_sync(again) is is_in_sync(make_plan(desired, after, catalog, options))


def with_closed_shells(observed: Inventory, kept: Mapping[str, Mapping[str, str]]) -> Inventory:
    """Return what a reading tells once what was kept is on the hosts, and their shells are closed."""
    hosts = {
        moid: facts.model_copy(
            update={
                "shell": None,
                "remembered": {**facts.remembered, **parse_remembered(moid, kept.get(moid, {}))},
            }
        )
        for moid, facts in observed.facts.hosts.items()
    }
    return observed.model_copy(update={"facts": observed.facts.model_copy(update={"hosts": hosts})})


def test_most_cases_are_carried_out() -> None:
    assert sum(map(can_be_carried_out, CASES)) >= 370


ABOUT_SEVERAL_HOSTS = {Code.OUTSIDE_WINDOW, Code.DEVICE_NOT_MATCHED}


@by_table()
def test_a_plan_is_of_one_piece(case: str) -> None:
    assert_hosts_have_their_moid(case)
    assert_what_is_set_is_read_back(case)
    assert_a_canary_strands_nobody(case)


def assert_hosts_have_their_moid(case: str) -> None:
    plan, moids = plan_of(case), {host.name: host.moid for host in inventory_of(case).hosts}
    single = [found for found in plan.diagnostics if Code(found.code) not in ABOUT_SEVERAL_HOSTS]
    for one in (*single, *plan.changes):
        if one.subject.kind == "host":
            assert one.subject.moid == moids[one.subject.name]


def assert_what_is_set_is_read_back(case: str) -> None:
    """Where work ends with something to wait for; what holds at once is read back with its change."""
    written: dict[str, set[SettingTarget]] = {}
    settled: dict[str, set[SettingTarget]] = {}
    for change in plan_of(case).changes:
        if isinstance(change, ChangeHost):
            written.setdefault(change.host.moid, set()).update(change.settings)
        if isinstance(change, RestartService | RebootHost | ColdBootHost | ExitMaintenance):
            settled.setdefault(change.host.moid, set()).update(change.settles)
    assert all(written.get(host, set()) <= settings for host, settings in settled.items())


def assert_a_canary_strands_nobody(case: str) -> None:
    """Whatever VM goes first: with all that it needs, and all others once it is done."""
    plan = plan_of(case)
    canaries = plan_canaries(plan.changes, plan.canaries, plan.contests, 1)
    scheduler = Scheduler(plan.changes, parallel=64, per_host=16, canaries=canaries)
    while True:
        while (change := scheduler.next_change()) is not None:
            scheduler.succeed(change)
        if (done := scheduler.canaries.done) is None:
            break
        assert {one.id for one in scheduler.waiting} >= {*done.held}
        scheduler.canaries.release(done)
    assert not scheduler.waiting
