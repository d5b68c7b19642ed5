"""The estate as a plan would leave it is what carrying it out leaves, by the simulator of plans."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache

import pytest

from tests.extent import examples
from tests.plans.by_table import by_table, some
from tests.plans.planned import desired_of, inventory_of, options_of, plan_of
from tests.plans.simulator import carry_out
from tests.plans.tables import CASES
from tests.plans.test_cases import can_be_carried_out
from tests.unit.execution import makers
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change, EnterMaintenance, PowerOffVm, PowerOnVm, RelocateVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.values import Placement, Subject, VmRef
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.planning.estate.ownership import as_named
from vgpu_cfg.planning.pool.outlook import after_plan
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags


def vms(observed: Inventory, *, without: Collection[str] = ()) -> dict[str, object]:
    """Return where each VM is, as what, and whether some GPU holds it; `without` those that DRS moves."""
    hosts = {host.moid: host.name for host in observed.hosts}
    return {
        vm.name: (
            hosts.get(vm.host_moid or ""),
            vm.power_state,
            sorted(one.profile for one in vm.detail.vgpus) if vm.detail else [],
            len(vm.detail.passthrough_gpus) if vm.detail else 0,
            sum(vm.moid in gpu.vm_moids for host in observed.hosts for gpu in host.gpus) > 0,
        )
        for vm in observed.vms
        if not vm.is_template and vm.name not in without
    }


def gpus(observed: Inventory) -> dict[str, object]:
    """Return how each GPU is used: what a host does not tell is as it comes."""
    same, direct = VgpuMode.SAME_SIZE, GraphicsType.SHARED_DIRECT
    return {
        f"{host.name} {gpu.pci_id}": "passthrough"
        if gpu.is_passthrough
        else (gpu.sharing, gpu.vgpu_mode or same, gpu.graphics_type or direct)
        for host in observed.hosts
        for gpu in host.gpus
    }


@by_table(some(examples(1, 8), of=8))
def test_hosts_gpus_and_vms_are_as_after_the_run(case: str) -> None:
    if not can_be_carried_out(case):
        return
    plan, observed = plan_of(case), as_named(desired_of(case), inventory_of(case))
    then = after_plan(plan, observed, load_catalog())
    real = carry_out(plan, observed, fingerprints=options_of(case).fingerprints)
    by_drs = {name for one in plan.changes if isinstance(one, EnterMaintenance) for name in one.evacuates}
    assert vms(then, without=by_drs) == vms(real, without=by_drs)
    assert gpus(then) == gpus(real)


def test_a_plan_without_changes_leaves_the_estate_as_it_is() -> None:
    case = "host-configuration-profile-right"
    observed = inventory_of(case)
    assert after_plan(plan_of(case), observed, load_catalog()) == observed


def test_what_is_blocked_does_not_come_true() -> None:
    case = next(
        one for one in CASES if set(plan_of(one).blocked) == {c.id for c in plan_of(one).changes} != set()
    )
    observed = inventory_of(case)
    assert vms(after_plan(plan_of(case), observed, load_catalog())) == vms(observed)


@cache
def fleet() -> Inventory:
    return read_to_examine(resolve_connection(ConnectionFlags(server="lab:fleet-6x2-18vms")))


@pytest.mark.parametrize(
    ("words", "place", "lacks", "held"),
    [
        ("", "", "", "first"),
        ("", "second", "", "first"),
        ("off", "", "", ""),
        ("off on", "", "", "first"),
        ("off on", "", "detail", "first"),
        ("off on", "", "vgpus", ""),
        ("off on", "second", "", "second"),
        ("move", "", "", ""),
        ("move", "elsewhere", "", "elsewhere"),
        ("move", "second", "", ""),
    ],
)
def test_a_vm_holds_its_gpu_until_it_is_off_or_elsewhere(
    words: str, place: str, lacks: str, held: str
) -> None:
    """A running VM on the first GPU of a host, restarted or moved, perhaps to a GPU that the plan names."""
    observed = fleet()
    host, other = observed.hosts[0], observed.hosts[4]
    gpus = {
        "first": (host, host.gpus[0]),
        "second": (host, host.gpus[1]),
        "elsewhere": (other, other.gpus[0]),
    }
    vm = observed.vm_by_moid[host.gpus[0].vm_moids[0]]
    assert vm.detail is not None
    ref, subject = VmRef(name=vm.name, moid=vm.moid), Subject(kind="vm", name=vm.name, moid=vm.moid)
    to = Destination(host_moid=other.moid, host_name=other.name)
    changes: dict[str, Change] = {
        "off": PowerOffVm(id="off", subject=subject, vm=ref),
        "on": PowerOnVm(id="on", subject=subject, vm=ref, host_moid=host.moid),
        "move": RelocateVm(id="move", subject=subject, vm=ref, destination=to, is_running=True),
    }
    there, gpu = gpus[place or "first"]
    at = Placement(vm=vm.name, host_moid=there.moid, host_name=there.name, gpu_pci_ids=(gpu.pci_id,))
    without = vm.detail.model_copy(update={"vgpus": ()})
    update = {"detail": {"detail": None, "vgpus": without}.get(lacks, vm.detail)}
    vms = tuple(one.model_copy(update=update) if one is vm else one for one in observed.vms)
    plan = makers.plan_of(*(changes[word] for word in words.split()), placements=(at,) if place else ())
    then = after_plan(plan, observed.model_copy(update={"vms": vms}), load_catalog())
    found = [(one.name, gpu.pci_id) for one in then.hosts for gpu in one.gpus if vm.moid in gpu.vm_moids]
    assert found == ([(gpus[held][0].name, gpus[held][1].pci_id)] if held else [])
