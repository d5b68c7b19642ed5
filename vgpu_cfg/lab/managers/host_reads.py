"""Answers without changes: service content; graphics, devices, NICs and profile of hosts; capacity; ports.

The host profile manager is answered as far as it shows which profile owns a host's settings.

DirectPath profiles and the remaining capacity of a host or a cluster are those of vim
`DirectPathProfileManager`. Capacity is counted on the lab's GPUs one vGPU after the other, as power-on does.
The estate's reservations count as unused as long as there is room for them: the lab powers nothing on from a
reservation.

The ports of distributed switches are those of VMs first, then free ones. Their keys are the lab's own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.managers import browser
from vgpu_cfg.lab.managers.browser import hosts_of
from vgpu_cfg.lab.renderers.hardware import host_of
from vgpu_cfg.lab.renderers.inventory import resource_usage
from vgpu_cfg.lab.renderers.network import net_config, port_config, switch_product
from vgpu_cfg.lab.renderers.services import service_content
from vgpu_cfg.lab.renderers.table import cut
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.gpu_load import GpuLoad, find_slot, load_of, serves_vgpus
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.directory import profiles_of
from vgpu_cfg.lab.simulation.operations import Context, answers, reference_to
from vgpu_cfg.lab.state.host import VNIC_SERVICES
from vgpu_cfg.lab.state.inventory import Cluster, DirectPathProfile, DistributedSwitch, Host, Managed, Network
from vgpu_cfg.lab.state.switch_members import port_keys, visible_nics


@answers("ServiceInstance", "RetrieveServiceContent")
def retrieve_service_content(context: Context, thing: Managed) -> Any:
    """Return the places of everything to any client."""
    return service_content(context)


@answers("ServiceInstance", "CurrentTime")
def current_time(context: Context, thing: Managed) -> Any:
    """Show the lab's time."""
    return as_datetime(context.lab.clock.now())


def _at_host(context: Context, thing: Managed, found: list[Any]) -> list[Any]:
    version = version_name(host_of(thing).api_version) or context.version
    return [cut(info, version) for info in found]


@answers("ClusterComputeResource", "GetResourceUsage")
def get_resource_usage(context: Context, thing: Managed) -> Any:
    """Show a cluster's resources and their use."""
    return resource_usage(context, context.state.get(thing.moid, Cluster))


@answers("ClusterComputeResource", "RefreshRecommendation")
def refresh_recommendation(context: Context, thing: Managed) -> None:
    """Do nothing: the lab's DRS recommends nothing."""


@answers("SessionManager", "AcquireCloneTicket")
def acquire_clone_ticket(context: Context, thing: Managed) -> str:
    """Return a ticket in the form for opening consoles; the lab accepts it nowhere."""
    return f"cst-VCT-{uuid4()}"


@answers("EnvironmentBrowser", "QueryTargetCapabilities")
def query_target_capabilities(context: Context, thing: Service, *, host: Any) -> Any:
    """Show the capabilities of a host, or of the first of a cluster's."""
    hosts = hosts_of(context, thing, host)
    reader = table_of("HostSystem").reader("capability", context.version)
    return reader.read(context, hosts[0]) if hosts else None


@answers("ManagedEntity", "Reload")
def reload(context: Context, thing: Managed) -> None:
    """Do nothing: the lab is never stale."""


@answers("HostGraphicsManager", "RetrieveVgpuDeviceInfo")
def retrieve_vgpu_device_info(context: Context, thing: Managed) -> list[Any]:
    """List the boards that serve vGPUs."""
    return _at_host(context, thing, browser.vgpu_device_info(host_of(thing)))


@answers("HostGraphicsManager", "RetrieveVgpuProfileInfo")
def retrieve_vgpu_profile_info(context: Context, thing: Managed) -> list[Any]:
    """List the profiles that the host's driver knows."""
    if host_of(thing).driver is None and context.state.denies("no-driver-no-fault"):
        raise refusals.not_supported()
    return _at_host(context, thing, browser.vgpu_profile_info(host_of(thing)))


@answers("HostGraphicsManager", "IsSharedGraphicsActive")
def is_shared_graphics_active(context: Context, thing: Managed) -> bool:
    """Return whether some GPU is shared by guests' 3D rendering (not: by vGPUs)."""
    return any(gpu.graphics_type == "shared" for gpu in host_of(thing).gpus)


@answers("HostGraphicsManager", "RefreshGraphicsManager")
def refresh_graphics_manager(context: Context, thing: Managed) -> None:
    """Do nothing: the lab is never stale."""


@answers("HostPciPassthruSystem", "Refresh")
def refresh_pci_passthru(context: Context, thing: Managed) -> None:
    """Do nothing, for the same reason."""


@answers("HostNetworkSystem", "QueryNetworkHint")
def query_network_hint(context: Context, thing: Managed, *, device: list[str]) -> list[Any]:
    """Report for NICs that no traffic was observed on their wires. Raises NotFound."""
    known = [nic.device for nic in visible_nics(host_of(thing))]
    if not {*device} <= {*known}:
        raise refusals.not_found()
    return [vim.host.PhysicalNic.NetworkHint(device=name) for name in device or known]


@answers("HostVirtualNicManager", "QueryNetConfig")
def query_net_config(context: Context, thing: Managed, *, nicType: str) -> Any:
    """Show which VMkernel NICs carry a service. Raises InvalidArgument."""
    if nicType not in VNIC_SERVICES:
        raise refusals.bad_argument("nicType")
    return net_config(context, host_of(thing), nicType)


@answers("DistributedVirtualSwitchManager", "QueryAvailableDvsSpec")
def query_available_dvs_spec(
    context: Context, thing: Managed, *, recommended: bool | None = None
) -> list[Any]:
    """List the possible versions of switches: the lab makes those of one."""
    return [switch_product()]


@answers("HostAssignableHardwareManager", "RetrieveVendorDeviceGroupInfo")
def retrieve_vendor_device_group_info(context: Context, thing: Managed) -> list[Any]:
    """List the device groups of a host."""
    return browser.device_groups(host_of(thing))


@answers("HostAssignableHardwareManager", "RetrieveDynamicPassthroughInfo")
def retrieve_dynamic_passthrough_info(context: Context, thing: Managed) -> list[Any]:
    """List what Dynamic DirectPath could assign."""
    return browser.dynamic_passthrough([host_of(thing)])


@answers("ProfileManager", "FindAssociatedProfile")
def find_associated_profile(context: Context, thing: Managed, *, entity: Any) -> list[Any]:
    """List the profiles that are attached to an entity itself."""
    moid = entity._GetMoId()
    return [
        vim.profile.host.HostProfile(profile.moid)
        for profile in profiles_of(context.state)
        if moid in profile.hosts
    ]


@answers("DirectPathProfileManager", "DirectPathProfileManagerList")
def list_profiles(context: Context, thing: Managed, *, filterSpec: Any) -> list[Any]:
    """List the profiles, those with the asked ids or names only. A filter by cluster is not played."""
    ids, names = (set(getattr(filterSpec, key, None) or ()) for key in ("ids", "names"))
    return [
        _info(profile)
        for profile in context.state.direct_path
        if (not ids or profile.id in ids) and (not names or profile.name in names)
    ]


@answers("DirectPathProfileManager", "DirectPathProfileManagerQueryCapacity")
def query_capacity(context: Context, thing: Managed, *, target: Any, querySpec: Any) -> list[Any]:
    """Count each profile that is asked for, all of them where none is, on a host or a cluster."""
    hosts = _hosts(context, target)
    if not querySpec:
        return [_capacity(profile, hosts) for profile in context.state.direct_path]
    return [_answer(context, spec, hosts) for spec in querySpec]


def _answer(context: Context, spec: Any, hosts: list[Host]) -> Any:
    manager = vim.DirectPathProfileManager
    for profile in context.state.direct_path:
        is_meant = (isinstance(spec, manager.CapacityQueryById) and spec.id == profile.id) or (
            isinstance(spec, manager.CapacityQueryByName) and spec.name == profile.name
        )
        if is_meant:
            return _capacity(profile, hosts)
    return manager.CapacityUnknown(querySpec=spec, faultList=[vmodl.fault.InvalidArgument()])


def _hosts(context: Context, target: Any) -> list[Host]:
    manager = vim.DirectPathProfileManager
    if isinstance(target, manager.TargetHost):
        return [context.state.get(target.host._moId, Host)]
    if isinstance(target, manager.TargetCluster):
        cluster = context.state.get(target.cluster._moId, Cluster)
        return [context.state.get(moid, Host) for moid in cluster.hosts]
    raise refusals.bad_argument("target")


def _info(profile: DirectPathProfile) -> Any:
    manager = vim.DirectPathProfileManager
    return manager.DirectPathProfileInfo(
        id=profile.id,
        name=profile.name,
        vendorName="NVIDIA",
        deviceConfig=manager.VmiopDirectPathConfig(vgpuProfile=profile.vgpu),
    )


def _capacity(profile: DirectPathProfile, hosts: list[Host]) -> Any:
    consumed = sum(use.profile == profile.vgpu for host in hosts for gpu in host.gpus for use in gpu.uses)
    left = sum(_room(host, profile.vgpu) for host in hosts)
    reserved = sum(profile.reserved.get(host.name, 0) for host in hosts)
    return vim.DirectPathProfileManager.CapacityInfo(
        profile=_info(profile),
        consumed=consumed,
        remaining=left,
        max=sum(_room(host, profile.vgpu, is_idle=True) for host in hosts),
        unusedReservation=min(reserved, left),
    )


def _room(host: Host, vgpu: str, *, is_idle: bool = False) -> int:
    """Count how many more of a profile a host takes, or how many it would with no VM running."""
    if host.connection != "connected":
        return 0
    count = 0
    for gpu in host.gpus:
        if not serves_vgpus(host, gpu):
            continue
        load = load_of(host, gpu)
        count += _room_of(replace(load, uses=()) if is_idle else load, vgpu)
    return count


def _room_of(load: GpuLoad, vgpu: str) -> int:
    count = 0
    while (slot := find_slot(load, vgpu)) is not None:
        load = replace(load, uses=(*load.uses, (vgpu, slot.start)))
        count += 1
    return count


@answers("DistributedVirtualSwitch", "FetchDVPorts")
def fetch_ports(context: Context, thing: DistributedSwitch, *, criteria: Any) -> list[Any]:
    """Return the ports that meet the criteria. Uplink ports are among them where only those are asked for."""
    wanted = criteria or vim.dvs.PortCriteria()
    if wanted.uplinkPort:
        return _uplink_ports(context, thing, wanted)
    named = set(wanted.portgroupKey or ())
    is_inside = wanted.inside is not False
    found = (context.state.get(moid, Network) for moid in thing.portgroups)
    groups = [group for group in found if not named or (group.moid in named) is is_inside]
    ports = (port for group in groups if not group.is_uplink for port in _ports(context, thing, group))
    keys = set(wanted.portKey or ())
    return [
        port
        for port in ports
        if (not keys or port.key in keys) and wanted.connected in (None, port.connectee is not None)
    ]


def _uplink_ports(context: Context, switch: DistributedSwitch, wanted: Any) -> list[Any]:
    hosts = [host._moId for host in wanted.host or ()] or switch.hosts
    return [
        vim.dvs.DistributedVirtualPort(
            key=key,
            config=vim.dvs.DistributedVirtualPort.ConfigInfo(configVersion="0", name=name),
            dvsUuid=switch.uuid,
            portgroupKey=switch.uplink_portgroup,
            proxyHost=reference_to(context, moid),
            conflict=False,
            lastStatusChange=as_datetime(context.lab.clock.now()),
        )
        for moid in switch.hosts
        if moid in hosts
        for key, name in port_keys(switch, moid).items()
    ]


def _ports(context: Context, switch: DistributedSwitch, group: Network) -> Iterator[Any]:
    vms = list(group.vms)
    setting = port_config(context, group)
    number = int(group.moid.rpartition("-")[2]) * 1000
    for at in range(max(group.ports, len(vms))):
        vm = vim.VirtualMachine(vms[at]) if at < len(vms) else None
        yield vim.dvs.DistributedVirtualPort(
            key=str(number + at),
            config=vim.dvs.DistributedVirtualPort.ConfigInfo(configVersion="0", setting=setting),
            dvsUuid=switch.uuid,
            portgroupKey=group.moid,
            connectee=vim.dvs.PortConnectee(connectedEntity=vm, type="vmVnic") if vm is not None else None,
            conflict=False,
            lastStatusChange=as_datetime(context.lab.clock.now()),
        )
