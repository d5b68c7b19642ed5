"""What is answered without changing anything: the service content, a host's graphics, devices and NICs."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.managers import offers
from vgpu_cfg.lab.managers.browser import hosts_of
from vgpu_cfg.lab.renderers.cluster import resource_usage
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.hosts.network import net_config
from vgpu_cfg.lab.renderers.network import switch_product
from vgpu_cfg.lab.renderers.services import service_content
from vgpu_cfg.lab.renderers.table import cut
from vgpu_cfg.lab.renderers.tables import table_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.host_parts import VNIC_SERVICES
from vgpu_cfg.lab.state.inventory import Cluster, Managed
from vgpu_cfg.lab.state.standard_switches import visible_nics


@answers("ServiceInstance", "RetrieveServiceContent")
def retrieve_service_content(context: Context, thing: Managed) -> Any:
    """Tell anybody where everything is."""
    return service_content(context)


@answers("ServiceInstance", "CurrentTime")
def current_time(context: Context, thing: Managed) -> Any:
    """Tell the lab's time."""
    return as_datetime(context.lab.clock.now())


def _at_host(context: Context, thing: Managed, found: list[Any]) -> list[Any]:
    version = version_name(host_of(thing).api_version) or context.version
    return [cut(info, version) for info in found]


@answers("ClusterComputeResource", "GetResourceUsage")
def get_resource_usage(context: Context, thing: Managed) -> Any:
    """Tell what a cluster has and uses."""
    return resource_usage(context, context.state.get(thing.moid, Cluster))


@answers("ClusterComputeResource", "RefreshRecommendation")
def refresh_recommendation(context: Context, thing: Managed) -> None:
    """Do nothing: the lab's DRS recommends nothing."""


@answers("SessionManager", "AcquireCloneTicket")
def acquire_clone_ticket(context: Context, thing: Managed) -> str:
    """Return a ticket of the form that consoles are opened with; nobody takes it."""
    return f"cst-VCT-{uuid4()}"


@answers("EnvironmentBrowser", "QueryTargetCapabilities")
def query_target_capabilities(context: Context, thing: Service, *, host: Any) -> Any:
    """Tell what a host can, or the first of a cluster's."""
    hosts = hosts_of(context, thing, host)
    reader = table_of("HostSystem").reader("capability", context.version)
    return reader.read(context, hosts[0]) if hosts else None


@answers("ManagedEntity", "Reload")
def reload(context: Context, thing: Managed) -> None:
    """Do nothing: the lab is never stale."""


@answers("HostGraphicsManager", "RetrieveVgpuDeviceInfo")
def retrieve_vgpu_device_info(context: Context, thing: Managed) -> list[Any]:
    """List the boards that serve vGPUs."""
    return _at_host(context, thing, offers.vgpu_device_info(host_of(thing)))


@answers("HostGraphicsManager", "RetrieveVgpuProfileInfo")
def retrieve_vgpu_profile_info(context: Context, thing: Managed) -> list[Any]:
    """List the profiles that the host's driver knows."""
    return _at_host(context, thing, offers.vgpu_profile_info(host_of(thing)))


@answers("HostGraphicsManager", "IsSharedGraphicsActive")
def is_shared_graphics_active(context: Context, thing: Managed) -> bool:
    """Tell whether some GPU is shared by guests' 3D rendering (not: by vGPUs)."""
    return any(gpu.graphics_type == "shared" for gpu in host_of(thing).gpus)


@answers("HostGraphicsManager", "RefreshGraphicsManager")
def refresh_graphics_manager(context: Context, thing: Managed) -> None:
    """Do nothing: the lab is never stale."""


@answers("HostPciPassthruSystem", "Refresh")
def refresh_pci_passthru(context: Context, thing: Managed) -> None:
    """Do nothing, for the same reason."""


@answers("HostNetworkSystem", "QueryNetworkHint")
def query_network_hint(context: Context, thing: Managed, *, device: list[str]) -> list[Any]:
    """Tell of NICs that nothing was heard on their wires. Raises NotFound."""
    known = [nic.device for nic in visible_nics(host_of(thing))]
    if not {*device} <= {*known}:
        raise refusals.not_found()
    return [vim.host.PhysicalNic.NetworkHint(device=name) for name in device or known]


@answers("HostVirtualNicManager", "QueryNetConfig")
def query_net_config(context: Context, thing: Managed, *, nicType: str) -> Any:
    """Tell which VMkernel NICs carry a service. Raises InvalidArgument."""
    if nicType not in VNIC_SERVICES:
        raise refusals.bad_argument("nicType")
    return net_config(context, host_of(thing), nicType)


@answers("DistributedVirtualSwitchManager", "QueryAvailableDvsSpec")
def query_available_dvs_spec(
    context: Context, thing: Managed, *, recommended: bool | None = None
) -> list[Any]:
    """Tell of which version switches can be made: the lab makes those of one."""
    return [switch_product()]


@answers("HostAssignableHardwareManager", "RetrieveVendorDeviceGroupInfo")
def retrieve_vendor_device_group_info(context: Context, thing: Managed) -> list[Any]:
    """List the device groups of a host."""
    return offers.device_groups(host_of(thing))


@answers("HostAssignableHardwareManager", "RetrieveDynamicPassthroughInfo")
def retrieve_dynamic_passthrough_info(context: Context, thing: Managed) -> list[Any]:
    """List what Dynamic DirectPath could assign."""
    return offers.dynamic_passthrough([host_of(thing)])
