"""All commands tell one truth: which VMs there are, where each goes, what fits, what is blocked and what
changes at all.

That `plan` and `status` agree on what is in sync is in `test_sync.py`.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.extent import examples
from tests.plans.by_table import by_table, some
from tests.plans.planned import desired_of, inventory_of, options_of, plan_of, without_kinds
from tests.plans.simulator import carry_out
from tests.plans.tables import CASES
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import CreateVm, RelocateVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import edit_text
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.planning.estate.ownership import as_named
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.kinds_needed import needs_kinds
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.pool.shapes import CurrentHosts
from vgpu_cfg.planning.remedies.lost_hosts import find_lost
from vgpu_cfg.planning.sync import is_in_sync
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.markdown.runbook import runbook_steps
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan
from vgpu_cfg.render.views.status import gpus_by_vm, view_status
from vgpu_cfg.verification.views import make_guest_views

WIDE = 400
TWICE = re.compile(r"(?:^|\s)(\S+) -> \1\*?(?=$|  | \()")
MOST_COPIES = examples(4, 16)
"""Where more fit, nobody counts them."""
AGAINST = (Code.SHARE_EXCEEDED, Code.GPUS_RESERVED, Code.CANNOT_RESERVE)


@pytest.mark.sampled(4)
@by_table()
def test_a_plan_is_what_every_command_says(case: str) -> None:
    assert_commands_agree_which_vms_there_are_and_where(case)
    assert_commands_agree_which_hosts_do_not_respond(case)
    assert_a_runbook_has_the_steps_of_the_plan(case)
    assert_what_is_blocked_is_marked_and_nothing_else(case)
    assert_vms_of_a_refused_plan_are_shown_with_the_gpus_that_they_would_get(case)
    assert_no_edit_leaves_a_value_as_it_was(case)
    assert_kinds_of_hosts_that_are_not_asked_would_change_nothing(case)


def assert_commands_agree_which_vms_there_are_and_where(case: str) -> None:
    plan, desired, observed = plan_of(case), desired_of(case), inventory_of(case)
    specs = {vm.name: GuestSpec(plan=desired.name, vm=vm.name) for vm in desired.vms}
    verified = {view.name: view for view in make_guest_views(desired, observed, specs, now=observed.read_at)}
    status = {row.name: row for row in view_status(plan, observed).vms}
    placed = {one.vm: one.host_name for one in plan.placements} | before_moves(plan)
    for name, host in new_vms(plan).items():
        assert placed[name] == host
        assert (status[name].state, verified[name].is_there) == ("missing", False)
    for name, view in verified.items():
        if view.is_there:
            assert status[name].host == view.host == placed.get(name, view.host)
    there = {name for name, view in verified.items() if view.is_there}
    assert {*plan.in_sync} <= there
    is_waiting = any(found.code == Code.RESERVED_FIRST for found in plan.diagnostics)
    if is_in_sync(plan) and not options_of(case).only and not is_waiting:
        assert there == {vm.name for vm in desired.vms} == {*plan.in_sync}


def before_moves(plan: Plan) -> dict[str, str]:
    """Return the VMs that a plan moves, each with the host that it is on now."""
    moves = (change for change in plan.changes if isinstance(change, RelocateVm))
    return {
        change.vm.name: edit.before or "" for change in moves for edit in change.edits if edit.key == "host"
    }


def assert_commands_agree_which_hosts_do_not_respond(case: str) -> None:
    """A VM there is neither made again, nor missing, nor in sync, and a step by hand waits for its host."""
    plan, desired, observed = plan_of(case), desired_of(case), inventory_of(case)
    told = find_lost(desired, observed, load_catalog(), options_of(case).selects)
    if not plan.lost_hosts:
        assert not told or options_of(case).only or plan.errors
        return
    assert told == plan.lost_hosts
    status = view_status(plan, observed)
    rows = {row.name: row for row in status.vms}
    specs = {vm.name: GuestSpec(plan=desired.name, vm=vm.name) for vm in desired.vms}
    verified = {view.name: view for view in make_guest_views(desired, observed, specs, now=observed.read_at)}
    for one in plan.lost_hosts:
        assert f"bring back {one.host.name}" in {change.id for change in plan.changes}
        findings = [found for found in plan.diagnostics if found.code == Code.HOST_LOST]
        (found,) = [found for found in findings if found.subject.moid == one.host.moid]
        assert one.host.name in {host.name for host in status.hosts if not host.is_in_sync}
        for vm in one.vms:
            assert vm.name in found.message
            assert vm.name not in {*plan.in_sync, *new_vms(plan)}
            assert (rows[vm.name].state, rows[vm.name].host) == ("disconnected", one.host.name)
            assert verified[vm.name].is_there
            assert verified[vm.name].host_state == one.connection.words
            assert not [change for change in plan.changes if change.subject.moid == vm.moid]


def assert_kinds_of_hosts_that_are_not_asked_would_change_nothing(case: str) -> None:
    if asks_kinds(case):
        return  # how many do not, a test counts
    plan, less = plan_of(case), without_kinds(inventory_of(case))
    again = make_plan(desired_of(case), less, load_catalog(), options_of(case))
    assert again == plan
    assert view_status(again, less) == view_status(plan, inventory_of(case))


def asks_kinds(case: str) -> bool:
    """Whether the kinds of hosts are asked for a case."""
    desired = desired_of(case)
    less = as_named(desired, without_kinds(inventory_of(case)))
    return needs_kinds(desired, less, load_catalog(), options_of(case))


def test_a_tenth_of_the_cases_asks_no_kinds_of_hosts() -> None:
    assert sum(not asks_kinds(case) for case in CASES) > len(CASES) / 10


def new_vms(plan: Plan) -> dict[str, str]:
    """Return the VMs that a plan makes, each with its host."""
    made = (change for change in plan.changes if isinstance(change, CreateVm))
    return {change.vm.name: change.location.host_name for change in made}


def assert_a_runbook_has_the_steps_of_the_plan(case: str) -> None:
    plan = plan_of(case)
    if plan.errors:
        return  # refused
    told = sorted((step.number, step.title) for step in runbook_steps(plan, setting, {}))
    assert told == list(enumerate((change.id for change in plan.changes), 1))


@pytest.mark.sampled(4)
@by_table(some(examples(1, 8), of=8))
def test_as_many_are_placed_as_fit(case: str) -> None:
    desired, options = desired_of(case), options_of(case)
    if desired.hosts or options.only or inventory_of(case).reservations is not None:
        return  # `fit` counts on hosts as they are now
    hosts = CurrentHosts(inventory_of(case), load_catalog())
    lines = {vm.line: vm for vm in reversed(desired.vms) if vm.gpus}
    for vm in lines.values():
        found = hosts.fit_vm(desired, vm, lambda _: True)
        if found.total <= MOST_COPIES:
            assert copies_made(case, vm, found.total) == found.total
            assert copies_made(case, vm, found.total + 1) <= found.total


@pytest.mark.parametrize("case", [case for case in CASES if case.startswith(("quota", "reservation"))])
def test_as_many_are_allowed_as_are_not_refused(case: str) -> None:
    desired, observed = desired_of(case), inventory_of(case)
    if options_of(case).only:
        return
    names = {vm.mark.vm for vm in observed.vms if vm.mark and vm.is_of(desired.identity)}
    there = tuple(vm for vm in desired.vms if vm.name in names)
    for vm in {vm.line: vm for vm in desired.vms if vm.gpus}.values():
        found = CurrentHosts(observed, load_catalog()).fit_vm(desired, vm, lambda _: True)
        if found.errors:
            assert refused(case, (*there, vm))
            continue
        more = [vm.model_copy(update={"name": f"copy-{number}"}) for number in range(found.allowed + 1)]
        assert not refused(case, (*there, *more[:-1]))
        if found.rooms.allowed is not None and (found.allowed < found.total or found.rooms.is_waiting):
            assert refused(case, (*there, *more))


def refused(case: str, vms: tuple[DesiredVm, ...]) -> list[str]:
    """Return what a plan of these VMs is refused for, of shares and of what is reserved."""
    desired = desired_of(case).model_copy(update={"vms": vms})
    options = replace(options_of(case), delete=())
    found = make_plan(desired, inventory_of(case), load_catalog(), options).errors
    return [one.code for one in found if one.code in AGAINST]


def copies_made(case: str, vm: DesiredVm, count: int) -> int:
    """Count the VMs that a plan of nothing but copies of one makes, whatever else there is."""
    copies = tuple(
        vm.model_copy(update={"name": f"copy-{number}", "line": "copies"}) for number in range(count)
    )
    desired = desired_of(case).model_copy(update={"vms": copies})
    options = replace(options_of(case), delete=())
    return len(new_vms(make_plan(desired, inventory_of(case), load_catalog(), options)))


def assert_what_is_blocked_is_marked_and_nothing_else(case: str) -> None:
    plan = plan_of(case)
    blocked = {*plan.blocked}
    if not plan.errors:
        assert not blocked
    for change in plan.changes:
        if any(
            found.severity is Severity.ERROR
            and (found.subject.kind, found.subject.name) == (change.subject.kind, change.subject.name)
            for found in plan.diagnostics
        ):
            assert change.id in blocked
        if blocked & {*change.needs}:
            assert change.id in blocked


def assert_vms_of_a_refused_plan_are_shown_with_the_gpus_that_they_would_get(case: str) -> None:
    plan = plan_of(case)
    left = tuple(change for change in plan.changes if change.id not in plan.blocked)
    if not plan.errors or any(change.kind in ("manual_step", "change_network") for change in left):
        return
    after = carry_out(plan.model_copy(update={"changes": left}), inventory_of(case))
    held = gpus_by_vm(after)
    there = {
        vm.name: vm for vm in after.vms_marked(desired_of(case).identity) if vm.mark and vm.mark.vm == vm.name
    }
    for one in plan.placements:
        vm = there.get(one.vm)
        if vm is None or not vm.is_on or one.vm in before_moves(plan):
            continue  # what is refused moves nobody
        assert vm.host_moid == one.host_moid
        if one.is_certain:
            assert {pci_id for pci_id, _ in held.get(vm.moid, ())} == {*one.gpu_pci_ids}


def assert_no_edit_leaves_a_value_as_it_was(case: str) -> None:
    plan = plan_of(case)
    edits = [edit for change in plan.changes for edit in change.edits]
    assert [edit for edit in edits if edit.before == edit.after] == []
    words = [edit_text(edit).removeprefix(f"{edit.key} ").partition(" -> ") for edit in edits]
    assert [before for before, _, after in words if before == after] == []
    shown = plain(render_plan(plan, WIDE, PlanShown(with_all=True)))
    assert [line for line in shown.splitlines() if TWICE.search(line)] == []


def test_what_is_said_twice_is_seen() -> None:
    assert TWICE.search("2  graphics type  shared -> shared  no rule speaks of the GPU")
    assert TWICE.search("cpus 4 -> 4*")
    assert not TWICE.search("apart  hvd-01 -> hvd-01, hvd-02")
