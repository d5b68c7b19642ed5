"""What an export of a case's estate says, and what the VMs there show that a plan file can state."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.plans.planned import FOLDER, inventory_of, plan_of
from tests.plans.simulator import carry_out
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import ChangeNetwork, ManualStep
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.estate.devices import OwnedDisks, exported_disks, recorded_others
from vgpu_cfg.planning.exporting.export import Asked, export
from vgpu_cfg.planning.exporting.selection import Choice
from vgpu_cfg.planning.vms.settings.setting import Carrier
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS

ID = "00000000-0000-4000-8000-0000000000aa"
EVERY_VM = Choice(vms=("*",))


@cache
def estate_of(case: str) -> Inventory:
    """Return a case's estate after its plan; before it where that cannot be carried out."""
    plan = plan_of(case)
    is_stuck = any(isinstance(change, ManualStep | ChangeNetwork) for change in plan.changes)
    return inventory_of(case) if plan.errors or is_stuck else carry_out(plan, inventory_of(case))


def has_vms(observed: Inventory) -> bool:
    return any(not vm.is_template and vm.detail is not None for vm in observed.vms)


def text_of(
    observed: Inventory, template: str = "", choice: Choice = EVERY_VM, datacenter: str | None = None
) -> str:
    asked = Asked(choice, "vc.example", template=template, datacenter=datacenter)
    return export(observed, load_catalog(), asked).text


def loaded(text: str) -> DesiredPlan:
    """Read an exported file as a command does; a plan without an id gets one."""
    path = Path(FOLDER.name) / "exported.yaml"
    path.write_text(text, encoding="utf-8")
    desired = load_plan(path).desired
    return desired if desired.id else desired.model_copy(update={"id": ID})


def named_in(desired: DesiredPlan, observed: Inventory) -> list[Vm]:
    """Return the VMs that an exported file names; of a name twice the one in its folder."""
    folders = {folder.moid: folder for folder in observed.folders}
    found = {}
    for vm in observed.vms:
        path = folders[vm.folder_moid].inventory_path if vm.folder_moid in folders else ""
        found[vm.name, path.rpartition("/vm/")[2] if "/vm/" in path else None] = vm
    return [found[vm.name, vm.folder] for vm in desired.vms]


def without(observed: Inventory, vms: list[Vm]) -> Inventory:
    """Return the estate as it is once VMs are deleted, and with them what is known of them elsewhere."""
    gone = {vm.moid for vm in vms}
    hosts = []
    for host in observed.hosts:
        gpus = tuple(
            gpu.model_copy(update={"vm_moids": tuple(moid for moid in gpu.vm_moids if moid not in gone)})
            for gpu in host.gpus
        )
        hosts.append(host.model_copy(update={"gpus": gpus}))
    clusters = tuple(
        cluster.model_copy(update={"rules": (), "host_rules": (), "vm_groups": (), "vm_overrides": ()})
        for cluster in observed.clusters
    )
    kept = tuple(vm for vm in observed.vms if vm.moid not in gone)
    return observed.model_copy(update={"hosts": tuple(hosts), "clusters": clusters, "vms": kept})


def shown(vm: Vm, observed: Inventory) -> Mapping[str, Any]:
    """Return what a VM shows of all that a plan file can state; keys, slots and order mean nothing.

    Of disks and devices it shows the plan's own: a plan file lists no others.
    """
    detail = vm.detail
    assert detail is not None
    disks = exported_disks(vm) or OwnedDisks(own=detail.disks)
    detail = detail.without_devices({one.key for one in recorded_others(vm)})
    host = observed.host_by_moid[vm.host_moid or ""]
    cluster = observed.cluster_by_moid.get(host.cluster_moid or host.compute_moid)
    kinds = {controller.key: controller.kind for controller in detail.controllers}
    rows = {
        row.key: row.shown(detail)
        for row in VM_SETTINGS
        if row.in_file is not None and row.carrier is not Carrier.CLUSTER
    }
    return {
        **rows,
        "overrides": dict(cluster.overrides_of(vm.moid)) if cluster else {},
        "vgpus": sorted((gpu.profile, gpu.group_key is not None) for gpu in detail.vgpus),
        "functions": sorted((device.pci_id or "", device.label or "") for device in detail.passthrough),
        "nics": sorted((nic.kind, nic.network, nic.function or "") for nic in detail.nics),
        "disks": sorted((disk.capacity_mib, kinds.get(disk.controller_key, "scsi")) for disk in disks.own),
        "attributes": dict(detail.attributes),
        "folder": vm.folder_moid,
        "cluster": cluster.moid if cluster else "",
        "datastore": detail.datastore_moids[:1],
        "resource_pool": detail.resource_pool_moid,
        "power": vm.power_state,
    }
