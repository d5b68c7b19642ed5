"""An exported file changes nothing where it was made, and makes the VMs again where they are gone.

Every case is an estate for it: as it is, and as its own plan leaves it.
"""

from __future__ import annotations

import pytest

from tests.extent import each
from tests.plans.exported import (
    estate_of,
    has_vms,
    loaded,
    named_in,
    shown,
    text_of,
    without,
)
from tests.plans.planned import desired_of, inventory_of
from tests.plans.simulator import carry_out
from tests.plans.tables import CASES
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY
from vgpu_cfg.planning.estate.ownership import as_imported
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.planner import make_plan

ANY_FILE_CHANGES = {
    "host-group-rule-follows-the-line": "the plan's own rules are not as it made them",
    "host-group-rule-was-turned-round": "the plan's own rules are not as it made them",
    "rule-follows-the-line": "the plan's own rules are not as it made them",
    **dict.fromkeys(
        (
            "reservation-before-that-of-others",
            "reservation-in-its-time",
            "reservation-not-over",
            "reservation-over",
        ),
        "an exported file names no time, so what the plan reserved is given back",
    ),
    **dict.fromkeys(
        (
            "a-nic-of-others-beside-one-that-is-counted",
            "mark-without-devices",
            "mark-without-devices-and-another-profile",
            "mark-without-devices-and-more-than-the-plan-file-asks-for",
        ),
        "the plan's own devices are yet to be recorded",
    ),
}
"""Cases in which the next plan of any file has something to do, and what."""
NOT_TODAY = frozenset({Code.HOST_CORDONED, Code.GPU_CORDONED})
"""Findings against making a VM where somebody has closed its place for new ones."""
NOT_MADE_AGAIN = {
    "vtpm-there-and-no-key-provider": "the vCenter lost its key provider",
    "host-others-passthrough": "a VM holds a GPU that the host does not hand out any more",
    "host-others-virtual-function": "a VM holds a virtual function that is not there any more",
    "host-nic-held-by-others": "a VM holds a NIC that the host does not hand out any more",
    "host-from-vms-mig-lost-at-reboot": "the host lost MIG mode",
    "nvlink-on-vsphere-7-runs": "the template's hardware version is newer than the host",
    "eight-vgpus-on-hardware-20": "the template's hardware version is newer than the host",
    "taken-gpu-refuses-40c": "a VM that is off has no room to be started",
    "host-mig-on-beside-another-vm-that-fits-then": "a VM that is off has no room to be started",
    "copied-mark-and-name": "another VM of the name bears a copy of the mark",
    "memory-is-there-of-an-unknown-board": "its profile is in no catalog",
}
"""Cases in which VMs that are there could not be made today, and why."""
NOT_MADE_AGAIN_AFTER = {
    "powered-off-vm-of-others": "a VM that is off has no room to be started",
    "pin-of-a-vm-that-is-off": "two VMs have one GPU, and one of them runs",
    "host-mig-on-gpus-of-another-vm-approved": "it was approved that a VM that is off cannot start again",
    **dict.fromkeys(
        (
            "host-from-vms-mig",
            "host-from-vms-only-used",
            "host-from-vms-one-gpu-of-four",
            "host-from-vms-sharing-stated",
            "host-vm-waits-for-its-host",
        ),
        "the simulated host offers the profiles of before its preparation",
    ),
    **dict.fromkeys(
        ("reservation-before-that-of-others",),
        "others have reserved the GPUs for later, and an exported file names no end",
    ),
    **dict.fromkeys(
        ("host-memory-margin-relaxed", "eight-gpu-server-relaxed", "vcenter-cannot-create-it-now-relaxed"),
        "the plan file relaxed a check",
    ),
}
"""The same of estates that the case's plan has changed."""
ELSEWHERE = {
    "first-cluster-that-fits": ("resource_pool",),
    "moves-to-another-cluster": ("resource_pool", "cluster"),
    "cpus-memory-nics-disks-change": ("nics",),
    "template-with-room-for-the-driver": ("disks",),
    "template-too-small-for-the-driver": ("disks",),
    "lost-host-with-ha-and-a-virtual-function": ("nics",),
    "restored-in-its-place-with-new-disks": ("disks",),
    "suspended-vm": ("power",),
}
"""What a case's VM shows and no plan file says: a pool of another cluster, or of none; an e1000; the smaller
disk of another template; a virtual function of a NIC that nobody names; foreign disks; a suspension."""

FIRST = {
    "vms-apart", "vm-of-no-template", "nvlink-pair", "guest-in-sync", "vtpm-there-and-no-key-provider",
    "rule-follows-the-line", "host-from-vms-mig-lost-at-reboot", "copied-mark-and-name", "vm-boots-with-bios",
}  # fmt: skip
PLACES = [(case, way) for case in CASES for way in ("as it is", "after its plan")]


def _is_first(case: str, way: str) -> bool:
    return case in FIRST or (way == "after its plan" and list(CASES).index(case) % 60 == 0)


places = pytest.mark.parametrize(
    ("case", "way"),
    # An odd number: one way and the other by turns.
    each(PLACES, "exports of every case: tests/plans/test_export.py", _is_first, one_of=18),
)


def _has_lost_host(observed: Inventory) -> bool:
    return any(host.connection is not Connection.CONNECTED for host in observed.hosts)


def _estate(case: str, way: str) -> Inventory | None:
    observed = inventory_of(case) if way == "as it is" else estate_of(case)
    return observed if has_vms(observed) else None


@pytest.mark.sampled(4)
@places
def test_the_next_plan_on_it_changes_nothing(case: str, way: str) -> None:
    observed = _estate(case, way)
    if observed is None:
        return
    desired = loaded(text_of(observed, datacenter=desired_of(case).datacenter))
    own = as_imported(observed, {vm.moid for vm in named_in(desired, observed)}, desired.identity)
    plan = make_plan(desired, own, load_catalog())
    by_hand = {f"bring back {lost.host.name}" for lost in plan.lost_hosts}
    changes = [change.id for change in plan.changes if change.id not in by_hand]
    assert changes == [] or case in ANY_FILE_CHANGES


@pytest.mark.sampled(4)
@places
def test_it_makes_the_vms_again(case: str, way: str) -> None:
    observed = _estate(case, way)
    templates = [vm.name for vm in observed.vms if vm.is_template] if observed is not None else []
    if observed is None or not templates:
        return
    desired = loaded(text_of(observed, templates[0], datacenter=desired_of(case).datacenter))
    vms, said = named_in(desired, observed), {vm.name: vm for vm in desired.vms}
    left = without(observed, vms)
    plan = make_plan(desired, left, load_catalog())
    excuses = NOT_MADE_AGAIN if way == "as it is" else NOT_MADE_AGAIN | NOT_MADE_AGAIN_AFTER
    is_closed = {Code(error.code) for error in plan.errors} <= NOT_TODAY or _has_lost_host(left)
    assert is_closed or case in excuses, plan.errors
    if plan.errors:
        return
    after = carry_out(plan, left)
    made = {vm.name: vm for vm in after.vms}
    for vm in (vm for vm in vms if vm.host_moid is not None):  # a template that was made a VM has no host
        before, now = dict(shown(vm, observed)), dict(shown(made[vm.name], after))
        if not said[vm.name].is_managed("numa"):
            # It follows the GPU, which may be another.
            assert bool(before.pop(AFFINITY_KEY)) == bool(now.pop(AFFINITY_KEY)) or not vm.is_on
        for key in ELSEWHERE.get(case, ()):
            before.pop(key, None)
            now.pop(key, None)
        assert now == before
