"""Rendering of clusters and standalone compute resources, with their DRS rules."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.renderers.entity import ENTITY, GREEN, attribute, constant, under
from vgpu_cfg.lab.renderers.host import USED_MHZ, used_mib
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.drs import rule_info
from vgpu_cfg.lab.simulation.directory import service_of
from vgpu_cfg.lab.simulation.operations import Context, reference_to, referred
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Group, Host

MIB = 1024 * 1024
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
