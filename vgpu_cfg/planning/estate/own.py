"""Which VMs of an estate are a plan's own, for whoever shows or verifies them: as planning sees it."""

from __future__ import annotations

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.naming import as_named
from vgpu_cfg.planning.estate.ownership import assess_ownership
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.collection import Findings


def own_vms(desired: DesiredPlan, observed: Inventory) -> dict[str, Vm]:
    """Return the VMs of a plan that exist, by their names in the plan file; a clone is none of them."""
    observed = as_named(desired, observed)
    site = Site(desired, observed, Findings())
    folders = {vm.name: site.folder_of(vm) for vm in desired.vms}
    return assess_ownership(desired, observed, folders, Findings()).existing
