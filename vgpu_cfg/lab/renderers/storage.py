"""Rendering of datastores."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import ENTITY, attribute
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.hardware import LARGEST_DISK_KB
from vgpu_cfg.lab.simulation.context import Context, referred
from vgpu_cfg.lab.simulation.directory import BROWSER
from vgpu_cfg.lab.state.inventory import Datastore

MIB = 1024 * 1024
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
