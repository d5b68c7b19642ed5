"""Which VMs of an estate are a plan's own, as planning sees it, and how it looks with more of them."""

from __future__ import annotations

from collections.abc import Collection

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import OwnerMark, Vm
from vgpu_cfg.planning.estate.devices import all_devices
from vgpu_cfg.planning.estate.disks import as_imported_disks
from vgpu_cfg.planning.estate.naming import as_named
from vgpu_cfg.planning.estate.ownership import assess_ownership
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.collection import Findings


def own_vms(desired: DesiredPlan, observed: Inventory) -> dict[str, Vm]:
    """Return the VMs of a plan that exist, by their names in the plan file; a clone is none of them."""
    return own_and_taken(desired, observed)[0]


def own_and_taken(desired: DesiredPlan, observed: Inventory) -> tuple[dict[str, Vm], frozenset[str]]:
    """Return the VMs of a plan that exist, and the names in whose places VMs are that are not clearly its."""
    observed = as_named(desired, observed)
    site = Site(desired, observed, Findings())
    folders = {vm.name: site.folder_of(vm) for vm in desired.vms}
    found = assess_ownership(desired, observed, folders, Findings())
    return found.existing, frozenset(name for name in found.blocked if folders[name] is not None)


def as_imported(observed: Inventory, moids: Collection[str], plan: PlanIdentity) -> Inventory:
    """Return an estate as it will be once VMs are taken in by a plan; those that it has stay as they are."""
    vms = (_with_mark(vm, plan) if vm.moid in moids else vm for vm in observed.vms)
    return observed.model_copy(update={"vms": tuple(vms)})


def _with_mark(vm: Vm, plan: PlanIdentity) -> Vm:
    if vm.is_of(plan) and vm.mark is not None and vm.mark.id:
        return vm
    uuid = vm.instance_uuid.lower()
    disks = as_imported_disks(vm)
    record = disks.to_record if disks is not None else None
    detail = vm.detail
    held = all_devices(detail) if detail is not None else {}
    mark = OwnerMark(
        plan=plan.name, vm=vm.name, id=plan.id, instance_uuid=uuid, is_imported=True, disks=record, **held
    )
    if detail is not None:
        detail = detail.model_copy(update={"extra_config": {**detail.extra_config, **mark.pairs}})
    return vm.model_copy(update={"mark": mark, "detail": detail})
