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
from tests.plans.planned import inventory_of
from tests.plans.simulator import carry_out
from tests.plans.tables import CASES
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, PowerState
from vgpu_cfg.planning.exporting.settling import taken_in
from vgpu_cfg.planning.planner import make_plan

RULES_OF_ITS_OWN_AWRY = {
    "host-group-rule-follows-the-line",
    "host-group-rule-was-turned-round",
    "rule-follows-the-line",
}
"""The plan's own rules are not as it made them: the next plan of any file puts them right."""
NOT_MADE_AGAIN = {
    "vtpm-there-and-no-key-provider": "the vCenter lost its key provider",
    "host-others-passthrough": "a VM holds a GPU that the host does not hand out any more",
    "host-others-virtual-function": "a VM holds a virtual function that is not there any more",
    "host-from-vms-mig-lost-at-reboot": "the host lost MIG mode",
    "host-nic-held-by-others": "a VM holds a NIC that the host does not hand out any more",
    "nvlink-on-vsphere-7-runs": "the template's hardware version is newer than the host",
    "taken-gpu-refuses-40c": "a VM that is off has no room to be started",
}
"""Estates in which the VMs that are there could not be made today."""
ELSEWHERE = {
    "first-cluster-that-fits": "resource_pool",
    "cpus-memory-nics-disks-change": "nics",
}
"""What a case's VM shows and no plan file says: a pool of another cluster; an e1000."""

FIRST = {
    "vms-apart", "vm-of-no-template", "nvlink-pair", "guest-in-sync", "vtpm-there-and-no-key-provider",
    "rule-follows-the-line", "host-from-vms-mig-lost-at-reboot", "copied-mark-and-name", "vm-boots-with-bios",
}  # fmt: skip
PLACES = [(case, way) for case in CASES for way in ("as it is", "after its plan")]


def _is_first(case: str, way: str) -> bool:
    return case in FIRST or (way == "after its plan" and list(CASES).index(case) % 20 == 0)


places = pytest.mark.parametrize(
    ("case", "way"), each(PLACES, "exports of every case: tests/plans/test_export.py", _is_first)
)


def _estate(case: str, way: str) -> Inventory | None:
    observed = inventory_of(case) if way == "as it is" else estate_of(case)
    return observed if has_vms(observed) else None


@places
def test_the_next_plan_on_it_changes_nothing(case: str, way: str) -> None:
    observed = _estate(case, way)
    if observed is None:
        return
    desired = loaded(text_of(observed))
    own = taken_in(observed, named_in(desired, observed), desired.identity)
    changes = [change.id for change in make_plan(desired, own, load_catalog()).changes]
    assert changes == [] or case in RULES_OF_ITS_OWN_AWRY


@places
def test_it_makes_the_vms_again(case: str, way: str) -> None:
    observed = _estate(case, way)
    templates = [vm.name for vm in observed.vms if vm.is_template] if observed is not None else []
    if observed is None or not templates:
        return
    desired = loaded(text_of(observed, templates[0]))
    vms = named_in(desired, observed)
    left = without(observed, vms)
    plan = make_plan(desired, left, load_catalog())
    assert bool(plan.errors) == (case in NOT_MADE_AGAIN and way == "as it is"), plan.errors
    if plan.errors:
        return
    after = carry_out(plan, left)
    made = {vm.name: vm for vm in after.vms}
    for vm in vms:
        before, now = dict(shown(vm, observed)), dict(shown(made[vm.name], after))
        if vm.host_moid != made[vm.name].host_moid or vm.power_state is not PowerState.ON:
            del before[AFFINITY_KEY], now[AFFINITY_KEY]  # it follows the GPU, which may be another
        for key in (ELSEWHERE.get(case),):
            before.pop(key or "", None)
            now.pop(key or "", None)
        assert now == before
