"""Runs of all cases taken back: the estate is as before, apart from what the rollback reports.

REWRITE_TRANSCRIPTS=1 writes the stored texts anew.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from tests.plans.by_table import by_table
from tests.plans.planned import after_of, inventory_of, options_of, plan_of
from tests.plans.simulator import carry_out, fullest
from tests.plans.tables import CASES
from tests.plans.test_cases import can_be_carried_out, told_of
from tests.sections import left_over, section
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.rollback.rollback import make_rollback, with_no_way_back

TOLD = Path(__file__).with_name("rollbacks.txt")
NOT_PLAYED = {
    "shrink-makes-room-for-another": "the simulated ESXi starts a VM on the GPU that another one needs",
}
"""Rollbacks that the simulator cannot carry out, with the reason."""

NOT_BACK = {
    "half-made-vm-is-finished": "the reservation of its memory stays",
    "latency-high-follows-the-cpus": "the greater reservation of CPUs satisfies the earlier one",
    "latency-high-not-stated-follows-the-cpus": "likewise",
    "nvlink-pair-was-plain": "NVLink stays between the vGPUs",
    "nvlink-pair-given-up": "NVLink does not come back",
    "moves-to-another-cluster": "it comes back without the resource pool that it was in",
}
"""Rollbacks that leave something without a finding, with the reason."""


@cache
def after(case: str) -> Inventory:
    """Return the estate after a case's plan; marks of new VMs have a time, as those that a run writes."""
    found = after_of(case)
    known = inventory_of(case).vm_by_moid
    vms = tuple(
        vm.model_copy(update={"mark": vm.mark.model_copy(update={"made_at": found.read_at})})
        if vm.mark is not None and vm.moid not in known
        else vm
        for vm in found.vms
    )
    return found.model_copy(update={"vms": vms})


@cache
def rollback_of(case: str) -> Plan:
    plan, done = plan_of(case), after(case)
    moids = {vm.name: vm.moid for vm in done.vms if vm.moid not in inventory_of(case).vm_by_moid}
    outcomes = [
        Outcome(
            change_id=one.id,
            subject=one.subject,
            status=OutcomeStatus.DONE,
            started_at=plan.read_at,
            vm_moid=moids[one.makes.name] if one.makes is not None else None,
        )
        for one in plan.changes
    ]
    return make_rollback(plan, outcomes, inventory_of(case), done, load_catalog(), options_of(case))


def changes_something(case: str) -> bool:
    return bool(plan_of(case).changes) and can_be_carried_out(case)


@by_table()
def test_a_rollback_is_as_it_is_stored(case: str) -> None:
    if not changes_something(case):
        return  # how many change something, a test counts
    rollback = rollback_of(case)
    lines = [told_of(rollback)]
    lines += [f"{one.id} after {', '.join(one.needs)}" for one in rollback.changes if one.needs]
    lines += [one.message for one in with_no_way_back(plan_of(case)).diagnostics if one.code == "VG557"]
    told = "\n".join(lines)
    assert told == section(TOLD, case, told)


def test_no_section_is_left_over() -> None:
    cases = [case for case in CASES if changes_something(case)]
    assert len(cases) > 500
    assert left_over(TOLD, cases) == []


@by_table()
def test_a_rollback_brings_the_estate_back(case: str) -> None:
    if not changes_something(case) or case in NOT_PLAYED:
        return
    before, rollback = inventory_of(case), rollback_of(case)
    again = carry_out(rollback, after(case), fullest)
    noted = {found.subject.name for found in rollback.diagnostics}
    moved = {one.moves.moid for one in plan_of(case).changes if one.moves is not None}
    assert {vm.moid for vm in again.vms if vm.name not in noted} <= before.vm_by_moid.keys()
    kept = [vm for vm in before.vms if vm.name not in noted and vm.moid in again.vm_by_moid]
    pairs = [(essence(again.vm_by_moid[vm.moid]), essence(vm)) for vm in kept if vm.detail is not None]
    assert [pair for pair in pairs if pair[0] != pair[1]] == [] or case in NOT_BACK
    assert all(again.vm_by_moid[vm.moid].host_moid == vm.host_moid for vm in kept if vm.moid in moved)


def essence(vm: Vm) -> dict[str, object]:
    """Return what a VM is made of, without its owner mark, which stays, and what vCenter chooses anew.

    A device that is removed and added has another key and MAC, and DRS moves VMs.
    """
    found: dict[str, object] = vm.model_dump(exclude={"mark", "detail", "host_moid"})
    assert vm.detail is not None
    detail = vm.detail.model_dump(exclude={"change_version", "extra_config", "datastore_moids"})
    for kind in ("vgpus", "passthrough", "nics"):
        devices = ({**one, "key": None, "mac": None} for one in detail[kind])
        found[kind] = sorted(map(repr, devices))
        del detail[kind]
    pairs = {key: text for key, text in vm.detail.extra_config.items() if not key.startswith("vgpu_cfg.")}
    options = {key: value for key, value in detail.pop("options").items() if value}
    return {**found, **detail, "pairs": pairs, "options": options}
