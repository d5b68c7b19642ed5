"""The table of every managed type that the lab shows, by the type's name on the wire."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import vim_class
from vgpu_cfg.lab.renderers.hardware import GRAPHICS_MANAGER, PCI_PASSTHRU_SYSTEM
from vgpu_cfg.lab.renderers.host import HOST, host_version
from vgpu_cfg.lab.renderers.inventory import (
    CLUSTER,
    CLUSTER_SHAPES,
    COMPUTE_RESOURCE,
    DATACENTER,
    DATASTORE,
    FOLDER,
    RESOURCE_POOL,
)
from vgpu_cfg.lab.renderers.network import DISTRIBUTED_PORTGROUP, DISTRIBUTED_SWITCH, NETWORK, NETWORK_SYSTEM
from vgpu_cfg.lab.renderers.services import SERVICES, TASK
from vgpu_cfg.lab.renderers.table import Render, Table
from vgpu_cfg.lab.renderers.vm import SNAPSHOT, VIRTUAL_MACHINE

RENDERERS: dict[str, dict[str, Render]] = {
    "Folder": FOLDER,
    "StoragePod": FOLDER,
    "Datacenter": DATACENTER,
    "ComputeResource": COMPUTE_RESOURCE,
    "ClusterComputeResource": CLUSTER,
    "ResourcePool": RESOURCE_POOL,
    "HostSystem": HOST,
    "VirtualMachine": VIRTUAL_MACHINE,
    "VirtualMachineSnapshot": SNAPSHOT,
    "Datastore": DATASTORE,
    "Network": NETWORK,
    "DistributedVirtualPortgroup": DISTRIBUTED_PORTGROUP,
    "VmwareDistributedVirtualSwitch": DISTRIBUTED_SWITCH,
    "Task": TASK,
    "HostGraphicsManager": GRAPHICS_MANAGER,
    "HostPciPassthruSystem": PCI_PASSTHRU_SYSTEM,
    "HostNetworkSystem": NETWORK_SYSTEM,
    **SERVICES,
}

SHAPES: dict[str, dict[str, Any]] = {
    "ClusterComputeResource": CLUSTER_SHAPES,
    "Datastore": {"info": vim.host.VmfsDatastoreInfo},
    "VmwareDistributedVirtualSwitch": {"config": vim.dvs.VmwareDistributedVirtualSwitch.ConfigInfo},
}

OF_A_HOST = frozenset(
    {
        "HostSystem",
        "HostGraphicsManager",
        "HostPciPassthruSystem",
        "HostNetworkSystem",
        "HostServiceSystem",
        "HostFirewallSystem",
        "HostVirtualNicManager",
        "HostAccessManager",
    }
)
"""Types whose properties an older host lacks, whatever the vCenter's version."""


@cache
def table_of(wsdl_type: str) -> Table:
    """Return the table of a type, made when it is first asked for."""
    limit = host_version if wsdl_type in OF_A_HOST else None
    return Table(vim_class(wsdl_type), RENDERERS[wsdl_type], SHAPES.get(wsdl_type), limit)
