"""What came with GPUs goes with them: a VM with GPUs, then without, is as one that never had any."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.extent import examples
from tests.plans.by_table import by_table, some
from tests.plans.planned import desired_of, inventory_of, options_of, plan_of
from tests.plans.simulator import carry_out
from tests.plans.test_cases import can_be_carried_out
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.vms.settings.setting import Carrier
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

ROWS = [
    row
    for row in VM_SETTINGS
    if row.carrier in (Carrier.CONFIG, Carrier.EXTRA_CONFIG)
    and not row.is_of_creation
    and row.key != "owner_mark"
]


def without_gpus(vm: DesiredVm, *, names: set[str]) -> DesiredVm:
    if vm.name not in names:
        return vm
    return vm.model_copy(update={"gpus": (), "managed": vm.managed | {"gpus"}})


def made_with_gpus(plan: Plan) -> set[str]:
    gpus = {vm.name for vm in plan.desired.vms if vm.gpus and "gpus" not in vm.ignore}
    return {change.vm.name for change in plan.changes if isinstance(change, CreateVm)} & gpus


def shown(observed: Inventory, names: set[str]) -> dict[str, dict[str, SettingValue | None]]:
    return {
        vm.name: {row.key: row.shown(vm.detail) or None for row in ROWS}
        for vm in observed.vms
        if vm.name in names and vm.detail is not None and not vm.is_template
    }


def tried(case: str) -> Iterator[tuple[DesiredPlan, set[str]]]:
    """Yield the plan without GPUs, and the names of the VMs that it takes them from."""
    if not can_be_carried_out(case):
        return
    names = made_with_gpus(plan_of(case))
    if names:
        desired = desired_of(case)
        yield (
            desired.model_copy(update={"vms": tuple(without_gpus(vm, names=names) for vm in desired.vms)}),
            names,
        )


@pytest.mark.sampled(4)
@by_table(some(examples(1, 8), of=8))
def test_a_vm_whose_gpus_go_is_as_one_that_had_none(case: str) -> None:
    for desired, names in tried(case):
        observed, catalog = inventory_of(case), load_catalog()
        options = replace(options_of(case), allow_power_cycle=True, delete=())
        never = make_plan(desired, observed, catalog, options)
        if never.errors:
            return  # such a plan without GPUs asks for what GPUs bring, as virtual NUMA nodes
        expected = shown(carry_out(never, observed, fingerprints=options.fingerprints), names)
        had = carry_out(plan_of(case), observed, fingerprints=options.fingerprints)
        plan = make_plan(desired, had, catalog, options)
        assert not plan.errors
        after = carry_out(plan, had, fingerprints=options.fingerprints)
        found = shown(after, names)
        assert not [
            f"{name}: {key}: {value!r} where it never had any, {found[name][key]!r} now"
            for name, row in expected.items()
            for key, value in row.items()
            if found[name][key] != value
        ]
        again = make_plan(desired, after, catalog, options)
        assert not again.changes
