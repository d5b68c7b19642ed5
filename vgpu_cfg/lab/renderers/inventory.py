"""Rendering of folders, datacenters, resource pools and datastores."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import ENTITY, GREEN, attribute, constant, under, vim_type
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.hardware import LARGEST_DISK_KB, cpu_capacity_mhz, reservation_mib
from vgpu_cfg.lab.simulation.directory import BROWSER
from vgpu_cfg.lab.simulation.operations import Context, reference_to, referred
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    Host,
    Network,
    ResourcePool,
    VirtualMachine,
)

MIB = 1024 * 1024


def unlimited(*, reservation: int = 0, expandable: bool = True) -> vim.ResourceAllocationInfo:
    """Return an allocation with normal shares and no limit."""
    return vim.ResourceAllocationInfo(
        reservation=reservation,
        expandableReservation=expandable,
        limit=-1,
        shares=vim.SharesInfo(shares=4000, level="normal"),
        overheadLimit=-1,
    )


def _allocation(asked: Any) -> vim.ResourceAllocationInfo:
    """Return a pool's values: the set ones, and a new pool's for the rest."""
    return unlimited() if asked is None else merged(unlimited(), asked)


def _in_datacenter(kind: type[Datastore | Network]) -> Render:
    def render(context: Context, thing: Datacenter) -> list[object]:
        state = context.state
        return referred(context, [it.moid for it in state.all(kind) if state.datacenter_of(it) is thing])

    return render


def _usage(*, of_memory: bool) -> Render:
    def render(context: Context, thing: ResourcePool) -> vim.ResourcePool.ResourceUsage:
        state = context.state
        cluster = state.get(thing.owner, Cluster)
        hosts = [state.get(moid, Host) for moid in cluster.hosts]
        vms = [vm for moid in thing.vms if (vm := state.get(moid, VirtualMachine)).is_on]
        if of_memory:
            most = sum(host.memory_mib for host in hosts) * MIB
            used = sum(reservation_mib(vm) for vm in vms) * MIB
        else:
            most = sum(cpu_capacity_mhz(host) for host in hosts)
            used = sum(vm.cpu_reservation_mhz for vm in vms)
        return vim.ResourcePool.ResourceUsage(
            reservationUsed=used,
            reservationUsedForVm=used,
            unreservedForPool=most - used,
            unreservedForVm=most - used,
            overallUsage=used,
            maxUsage=most,
        )

    return render


FOLDER: dict[str, Render] = {
    **ENTITY,
    "childType": attribute(lambda thing: [vim_type(name) for name in thing.child_types]),
    "childEntity": lambda context, thing: referred(context, thing.children),
}

DATACENTER: dict[str, Render] = {
    **ENTITY,
    "vmFolder": lambda context, thing: reference_to(context, thing.vm_folder),
    "hostFolder": lambda context, thing: reference_to(context, thing.host_folder),
    "datastoreFolder": lambda context, thing: reference_to(context, thing.datastore_folder),
    "networkFolder": lambda context, thing: reference_to(context, thing.network_folder),
    "datastore": _in_datacenter(Datastore),
    "network": _in_datacenter(Network),
    "configuration": constant(vim.Datacenter.ConfigInfo()),
}

_RUNTIME: dict[str, Render] = {
    "memory": _usage(of_memory=True),
    "cpu": _usage(of_memory=False),
    "overallStatus": GREEN,
}

_CONFIG: dict[str, Render] = {
    "cpuAllocation": lambda _context, thing: _allocation(thing.cpu),
    "memoryAllocation": lambda _context, thing: _allocation(thing.memory),
}

RESOURCE_POOL: dict[str, Render] = {
    **ENTITY,
    "summary.name": attribute(lambda thing: thing.name),
    **under("summary.config", _CONFIG),
    **under("summary.runtime", _RUNTIME),
    **under("runtime", _RUNTIME),
    "owner": lambda context, thing: reference_to(context, thing.owner),
    "resourcePool": lambda context, thing: referred(context, thing.pools),
    "vm": lambda context, thing: referred(context, thing.vms),
    **under("config", _CONFIG),
    "childConfiguration": constant([]),
}


LARGEST_FILE = LARGEST_DISK_KB * 1024
"""Bytes of the largest virtual disk, 62 TB."""


def summary(thing: Datastore) -> Any:
    """Return a datastore's summary, which a ConfigTarget repeats."""
    return vim.Datastore.Summary(
        datastore=vim.Datastore(thing.moid),
        name=thing.name,
        url=thing.url,
        capacity=thing.capacity_mib * MIB,
        freeSpace=thing.free_mib * MIB,
        uncommitted=0,
        accessible=thing.accessible,
        multipleHostAccess=len(thing.hosts) > 1,
        type=thing.kind,
        maintenanceMode="inMaintenance" if thing.in_maintenance else "normal",
    )


def capability(thing: Datastore) -> Any:
    """Return what can be done on a datastore."""
    return vim.Datastore.Capability(
        directoryHierarchySupported=True,
        rawDiskMappingsSupported=thing.kind == "VMFS",
        perFileThinProvisioningSupported=True,
        storageIORMSupported=thing.kind != "vsan",
        nativeSnapshotSupported=False,
        topLevelDirectoryCreateSupported=thing.kind != "vsan",
    )


def _info(_context: Context, thing: Datastore) -> Any:
    common = {
        "name": thing.name,
        "url": thing.url,
        "freeSpace": thing.free_mib * MIB,
        "maxFileSize": LARGEST_FILE,
        "maxVirtualDiskCapacity": LARGEST_FILE,
        "maxMemoryFileSize": LARGEST_FILE,
    }
    if thing.kind != "VMFS":
        return vim.host.VsanDatastoreInfo(**common) if thing.kind == "vsan" else vim.Datastore.Info(**common)
    volume = vim.host.VmfsVolume(
        type="VMFS",
        name=thing.name,
        capacity=thing.capacity_mib * MIB,
        blockSizeMb=1,
        maxBlocks=63963136,
        majorVersion=6,
        version="6.82",
        uuid=thing.moid,
        extent=[vim.host.ScsiDisk.Partition(diskName=f"naa.{thing.moid}", partition=1)],
        vmfsUpgradable=False,
        ssd=True,
        local=len(thing.hosts) == 1,
    )
    return vim.host.VmfsDatastoreInfo(
        **common, maxPhysicalRDMFileSize=LARGEST_FILE, maxVirtualRDMFileSize=LARGEST_FILE, vmfs=volume
    )


def _mounts(context: Context, thing: Datastore) -> list[Any]:
    mount = vim.host.MountInfo(
        path=thing.url.removeprefix("ds://"),
        accessMode="readWrite",
        mounted=True,
        accessible=thing.accessible,
    )
    return [vim.Datastore.HostMount(key=host, mountInfo=mount) for host in referred(context, thing.hosts)]


DATASTORE: dict[str, Render] = {
    **ENTITY,
    "info": _info,
    "summary": attribute(summary),
    "host": _mounts,
    "vm": lambda context, thing: referred(context, thing.vms),
    "capability": attribute(capability),
    "browser": attribute(lambda thing: vim.host.DatastoreBrowser(f"{BROWSER}-{thing.moid}")),
}
