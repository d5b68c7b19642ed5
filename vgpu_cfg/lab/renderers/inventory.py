"""Rendering of folders, datacenters, clusters, resource pools and datastores."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.renderers.entity import ENTITY, GREEN, MIB, attribute, constant, under, vim_type
from vgpu_cfg.lab.renderers.host import USED_MHZ, used_mib
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.admission import unreserved_mib
from vgpu_cfg.lab.rules.drs import rule_info
from vgpu_cfg.lab.rules.hardware import LARGEST_DISK_KB, cpu_capacity_mhz, reservation_mib
from vgpu_cfg.lab.simulation.directory import BROWSER, service_of
from vgpu_cfg.lab.simulation.operations import Context, reference_to, referred
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    Group,
    Host,
    Network,
    ResourcePool,
    VirtualMachine,
)


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
            used = sum(reservation_mib(vm) for vm in vms) * MIB
            most, left = sum(host.memory_mib for host in hosts) * MIB, unreserved_mib(state, thing)
            most = most if left is None else min(most, used + left * MIB)
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


_OLD_PRIORITIES = ("disabled", "low", "medium", "high")
"""The words of vim `DasVmPriority`."""


def _hosts(context: Context, thing: Cluster, *, usable: bool = False) -> list[Host]:
    hosts = [context.state.get(moid, Host) for moid in thing.hosts]
    return [host for host in hosts if host.is_usable] if usable else hosts


def _das_config(_context: Context, thing: Cluster) -> Any:
    """Render HA. Unset values are as in the API reference; the vSphere Client may send other values."""
    monitoring = vim.cluster.VmToolsMonitoringSettings(
        vmMonitoring="vmMonitoringDisabled",
        clusterSettings=True,
        failureInterval=30,
        minUpTime=120,
        maxFailures=3,
        maxFailureWindow=-1,
    )
    unset = vim.cluster.DasConfigInfo(
        hostMonitoring="enabled",
        vmMonitoring="vmMonitoringDisabled",
        failoverLevel=1,
        admissionControlEnabled=False,
        defaultVmSettings=vim.cluster.DasVmSettings(
            restartPriority="medium", isolationResponse="powerOff", vmToolsMonitoringSettings=monitoring
        ),
        option=[],
    )
    shown = merged(unset, thing.das)
    shown.enabled = thing.ha_enabled
    return shown


def _drs_config(_context: Context, thing: Cluster) -> Any:
    return vim.cluster.DrsConfigInfo(
        enabled=thing.drs_enabled,
        enableVmBehaviorOverrides=True,
        defaultVmBehavior=thing.drs_behavior,
        vmotionRate=3,
        option=[vim.option.OptionValue(key=key, value=value) for key, value in thing.drs_options.items()],
    )


def _drs_vms(_context: Context, thing: Cluster) -> list[Any]:
    """Render the DRS settings of single VMs. `enabled` is always there: govc reads it unasked."""
    return [
        vim.cluster.DrsVmConfigInfo(
            key=vim.VirtualMachine(moid),
            enabled=override.drs_enabled is not False,
            behavior=override.drs_behavior,
        )
        for moid, override in thing.overrides.items()
        if override.has_drs
    ]


def _das_vms(_context: Context, thing: Cluster) -> list[Any]:
    """Render HA's settings; the deprecated restart priority only where it has the word."""
    return [
        vim.cluster.DasVmConfigInfo(
            key=vim.VirtualMachine(moid),
            restartPriority=settings.restartPriority if settings.restartPriority in _OLD_PRIORITIES else None,
            dasSettings=settings,
        )
        for moid, override in thing.overrides.items()
        if (settings := override.das_settings) is not None
    ]


def _group(context: Context, group: Group) -> Any:
    members = referred(context, group.members)
    if group.kind == "vm":
        return vim.cluster.VmGroup(name=group.name, userCreated=True, vm=members)
    return vim.cluster.HostGroup(name=group.name, userCreated=True, host=members)


_SUMMARY: dict[str, Render] = {
    "totalCpu": lambda context, thing: sum(host.cores * host.cpu_mhz for host in _hosts(context, thing)),
    "totalMemory": lambda context, thing: sum(host.memory_mib for host in _hosts(context, thing)) * MIB,
    "numCpuCores": lambda context, thing: sum(host.cores for host in _hosts(context, thing)),
    "numCpuThreads": lambda context, thing: sum(host.threads for host in _hosts(context, thing)),
    "effectiveCpu": lambda context, thing: sum(
        host.cores * host.cpu_mhz for host in _hosts(context, thing, usable=True)
    ),
    "effectiveMemory": lambda context, thing: sum(
        host.memory_mib for host in _hosts(context, thing, usable=True)
    ),
    "numHosts": attribute(lambda thing: len(thing.hosts)),
    "numEffectiveHosts": lambda context, thing: len(_hosts(context, thing, usable=True)),
    "overallStatus": GREEN,
}

COMPUTE_RESOURCE: dict[str, Render] = {
    **ENTITY,
    "resourcePool": lambda context, thing: reference_to(context, thing.resource_pool),
    "host": lambda context, thing: referred(context, thing.hosts),
    "datastore": lambda context, thing: referred(context, thing.datastores),
    "network": lambda context, thing: referred(context, thing.networks),
    **under("summary", _SUMMARY),
    "environmentBrowser": attribute(lambda thing: reference(service_of(thing, "envbrowser"))),
    "configurationEx.vmSwapPlacement": constant("vmDirectory"),
    "lifecycleManaged": attribute(lambda thing: thing.image_managed),
    "configManagerEnabled": attribute(lambda thing: thing.config_managed),
}

_CLUSTER_CONFIG: dict[str, Render] = {
    "dasConfig": _das_config,
    "dasVmConfig": _das_vms,
    "drsConfig": _drs_config,
    "drsVmConfig": _drs_vms,
    "rule": attribute(lambda thing: [rule_info(rule) for rule in thing.rules]),
}


def _vsan_config(context: Context, thing: Cluster) -> Any:
    stores = (context.state.get(moid, Datastore) for moid in thing.datastores)
    return vim.vsan.cluster.ConfigInfo(
        enabled=any(store.kind == "vsan" for store in stores),
        defaultConfig=vim.vsan.cluster.ConfigInfo.HostDefaultInfo(autoClaimStorage=False),
    )


def resource_usage(context: Context, thing: Cluster) -> Any:
    """Render the resources and the use of a cluster's hosts, by their summaries."""
    hosts = _hosts(context, thing)
    memory, used = sum(host.memory_mib for host in hosts), sum(used_mib(context, host) for host in hosts)
    stores = [context.state.get(moid, Datastore) for moid in thing.datastores]
    return vim.cluster.ResourceUsageSummary(
        cpuUsedMHz=USED_MHZ * len(hosts),
        cpuCapacityMHz=sum(host.cores * host.cpu_mhz for host in hosts),
        memUsedMB=used,
        memCapacityMB=memory,
        pMemAvailableMB=0,
        pMemCapacityMB=0,
        storageUsedMB=sum(store.capacity_mib - store.free_mib for store in stores),
        storageCapacityMB=sum(store.capacity_mib for store in stores),
    )


CLUSTER: dict[str, Render] = {
    **COMPUTE_RESOURCE,
    "summary.currentFailoverLevel": constant(1),
    "summary.numVmotions": constant(0),
    **under("summaryEx", _SUMMARY),
    "summaryEx.currentFailoverLevel": constant(1),
    "summaryEx.numVmotions": constant(0),
    **under("configuration", _CLUSTER_CONFIG),
    **under("configurationEx", _CLUSTER_CONFIG),
    "configurationEx.vsanConfigInfo": _vsan_config,
    "configurationEx.group": lambda context, thing: [_group(context, group) for group in thing.groups],
    "recommendation": constant([]),
    "drsRecommendation": constant([]),
    "migrationHistory": constant([]),
    "actionHistory": constant([]),
    "drsFault": constant([]),
}

CLUSTER_SHAPES = {
    "summary": vim.ClusterComputeResource.Summary,
    "configurationEx": vim.cluster.ConfigInfoEx,
}
"""The actual type of a value if a compute resource's type only declares the base."""
