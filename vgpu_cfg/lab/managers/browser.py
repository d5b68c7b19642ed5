"""The environment browser: a host's, or a whole compute resource's, offers to a VM (vim `ConfigTarget`)."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.managers import offers
from vgpu_cfg.lab.renderers.network import network_summary
from vgpu_cfg.lab.renderers.storage import LARGEST_FILE, capability, summary
from vgpu_cfg.lab.renderers.table import cut
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, DistributedSwitch, Host, Network

MIB = 1024 * 1024


def hosts_of(context: Context, thing: Service, wanted: Any) -> list[Host]:
    """Return the hosts that an answer is about: one, or all of the compute resource.

    Raises InvalidArgument for a host of somewhere else.
    """
    owner = thing.owner
    if not isinstance(owner, Cluster):
        raise TypeError(f"{thing.moid} browses no compute resource")
    if wanted is None:
        return [context.state.get(moid, Host) for moid in owner.hosts]
    if wanted._moId not in owner.hosts:
        raise vmodl.fault.InvalidArgument(
            invalidProperty="host", msg="A specified parameter was not correct: host"
        )
    return [context.state.get(wanted._moId, Host)]


@answers("EnvironmentBrowser", "QueryConfigTarget")
def query_config_target(context: Context, thing: Service, *, host: Any) -> Any:
    """Return what can be given to a VM here. Without a host the offers of all hosts are joined."""
    hosts = [found for found in hosts_of(context, thing, host) if found.connection == "connected"]
    if not hosts:
        return None
    newest = max(hosts, key=lambda found: [int(part) for part in found.api_version.split(".")])
    return cut(_target(context, hosts), version_name(newest.api_version) or context.version)


def _target(context: Context, hosts: list[Host]) -> Any:
    devices = {info.deviceVendorId: info for host in hosts for info in offers.vgpu_device_info(host)}
    profiles = {
        (info.profileName, info.deviceVendorId): info
        for host in hosts
        for info in offers.vgpu_profile_info(host)
    }
    groups = {info.deviceGroupName: info for host in hosts for info in offers.device_groups(host)}
    networks = _named(context, hosts, "networks", Network)
    return vim.vm.ConfigTarget(
        numCpus=max(host.threads for host in hosts),
        numCpuCores=max(host.cores for host in hosts),
        numNumaNodes=max(len(host.numa_nodes) for host in hosts),
        maxCpusPerHost=max(host.threads for host in hosts),
        smcPresent=False,
        datastore=[_datastore_info(found) for found in _named(context, hosts, "datastores", Datastore)],
        network=[
            vim.vm.NetworkInfo(name=found.name, network=network_summary(found))
            for found in networks
            if not found.is_distributed
        ],
        distributedVirtualPortgroup=[
            _portgroup_info(context, found) for found in networks if found.is_distributed
        ],
        distributedVirtualSwitch=[
            vim.dvs.DistributedVirtualSwitchInfo(
                switchName=switch.name,
                switchUuid=switch.uuid,
                distributedVirtualSwitch=vim.dvs.VmwareDistributedVirtualSwitch(switch.moid),
            )
            for switch in context.state.all(DistributedSwitch)
            if any(host.moid in switch.hosts for host in hosts)
        ],
        maxMemMBOptimalPerf=max(host.memory_mib for host in hosts),
        supportedMaxMemMB=max(host.memory_mib for host in hosts),
        autoVmotion=False,
        pciPassthrough=[info for host in hosts for info in offers.pci_passthrough(host)],
        sriov=[info for host in hosts for info in offers.sriov(host)],
        sharedGpuPassthroughTypes=offers.shared_gpu_types(hosts),
        dynamicPassthrough=offers.dynamic_passthrough(hosts),
        vgpuDeviceInfo=list(devices.values()),
        vgpuProfileInfo=list(profiles.values()),
        vendorDeviceGroupInfo=list(groups.values()),
    )


def _named(context: Context, hosts: list[Host], attribute: str, kind: Any) -> list[Any]:
    moids = dict.fromkeys(moid for host in hosts for moid in getattr(host, attribute))
    found = (context.state.find(moid, kind) for moid in moids)
    return [thing for thing in found if thing is not None]


def _datastore_info(datastore: Datastore) -> Any:
    return vim.vm.DatastoreInfo(
        name=datastore.name,
        datastore=summary(datastore),
        capability=capability(datastore),
        maxFileSize=LARGEST_FILE,
        maxVirtualDiskCapacity=LARGEST_FILE,
        mode="readWrite",
    )


def _portgroup_info(context: Context, network: Network) -> Any:
    switch = context.state.get(network.switch, DistributedSwitch)
    return vim.dvs.DistributedVirtualPortgroupInfo(
        switchName=switch.name,
        switchUuid=switch.uuid,
        portgroupName=network.name,
        portgroupKey=network.moid,
        portgroupType="earlyBinding",
        uplinkPortgroup=network.is_uplink,
        portgroup=vim.dvs.DistributedVirtualPortgroup(network.moid),
    )
