"""The fixed list of properties that a reading asks for, pass by pass.

The list does not depend on the plan: that is what makes a recording answer any plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY
from vgpu_cfg.planning.vms.settings.table import READ_PATHS
from vgpu_cfg.vsphere.reading.parts import NO_PARTS, OF_HOSTS, OF_VMS
from vgpu_cfg.vsphere.wire.collector import Paths

HOST = "vim.HostSystem"
VM = "vim.VirtualMachine"
CLUSTER = "vim.ClusterComputeResource"
SWITCH = "vim.DistributedVirtualSwitch"


def extra_config_path(key: str) -> str:
    """Return the property path of one extraConfig key."""
    return f'config.extraConfig["{key}"]'


VM_LIGHT = (
    "name",
    "parent",
    "runtime.host",
    "runtime.powerState",
    "config.template",
    "config.instanceUuid",
    extra_config_path(MARK_PLAN_KEY),
    extra_config_path(MARK_VM_KEY),
)

VM_DETAIL = (
    "config.changeVersion",
    "config.version",
    "config.guestId",
    "config.firmware",
    "config.hardware.numCPU",
    "config.hardware.numCoresPerSocket",
    "config.hardware.memoryMB",
    "config.hardware.device",
    "config.memoryAllocation.reservation",
    "config.memoryReservationLockedToMax",
    # What the rows of the table of VM settings read besides.
    *READ_PATHS,
    "availableField",
    "customValue",
    # Whole, since keys like pciPassthru<n>.cfg.* cannot be listed beforehand.
    "config.extraConfig",
    # Left out where the API does not know them.
    "config.deviceGroups",
    "config.numaInfo",
    "resourcePool",
    "datastore",
    "snapshot.currentSnapshot",
    # Of VMs that run; whose configuration is read costs no round trip more.
    "summary.quickStats.overallCpuUsage",
    "summary.quickStats.uptimeSeconds",
    "runtime.maxCpuUsage",
    # What the guest's tools tell; absent where none ever ran.
    "guest.toolsRunningStatus",
    "guest.hostName",
    "guest.ipAddress",
    "guest.net",
    # Whether tools were ever installed: of templates it is told as well.
    "guest.toolsVersionStatus2",
)

HOST_LIGHT = (
    "name",
    "parent",
    "runtime.connectionState",
    "runtime.inMaintenanceMode",
    "summary.config.product.version",
    "summary.config.product.build",
    "summary.hardware.model",
    "summary.hardware.numCpuCores",
    "summary.hardware.numCpuThreads",
    "summary.hardware.cpuMhz",
    "summary.hardware.memorySize",
    "config.graphicsInfo",
    "config.graphicsConfig",
    "config.sharedPassthruGpuTypes",
    "network",
    "datastore",
    # Of custom attributes, names and values: what keeps new VMs off a host.
    "availableField",
    "customValue",
)

HOST_DETAIL = (
    "hardware.pciDevice",
    "hardware.numaInfo",
    "config.pciPassthruInfo",
    "config.network.pnic",
    "configManager.graphicsManager",
    "configManager.assignableHardwareManager",
)

FIRST_PASS = (
    Paths("vim.Datacenter", ("name", "parent", "vmFolder"), NO_PARTS),
    Paths("vim.Folder", ("name", "parent"), NO_PARTS),
    Paths("vim.ComputeResource", ("name", "parent", "host", "resourcePool", "environmentBrowser"), NO_PARTS),
    # Whole: its declared type has none of a cluster's fields, so no path into them is sure to be taken.
    Paths(CLUSTER, ("configurationEx",)),
    Paths(HOST, HOST_LIGHT, OF_HOSTS),
    Paths("vim.ResourcePool", ("name", "parent", "owner"), NO_PARTS),
    Paths(
        "vim.Datastore",
        ("name", "parent", "summary.type", "summary.freeSpace", "summary.capacity", "summary.accessible"),
        NO_PARTS,
    ),
    Paths("vim.Network", ("name", "parent"), NO_PARTS),
    Paths(
        "vim.dvs.DistributedVirtualPortgroup",
        ("key", "config.distributedVirtualSwitch", "config.uplink"),
        NO_PARTS,
    ),
    Paths("vim.DistributedVirtualSwitch", ("name", "uuid", "config.uplinkPortgroup"), NO_PARTS),
    Paths(VM, VM_LIGHT, OF_VMS),
)
"""Every object once, light."""

VM_MOVING = tuple(path for path in VM_DETAIL if not path.startswith("config."))
"""What is read of a VM in detail, and lies outside of its configuration."""

FIRST_PASS_AGAIN = (*FIRST_PASS[:-1], Paths(VM, (*VM_LIGHT, "config.changeVersion", *VM_MOVING), OF_VMS))
"""Every object once more: of VMs what tells whether their configuration has changed, and what else moves."""

CLOSE_PASS = (Paths(HOST, HOST_DETAIL, OF_HOSTS), Paths(VM, VM_DETAIL, OF_VMS))
"""Hosts that have GPUs, or may have, with the VMs there, and the VMs that the plan is about."""

_ENTITIES = frozenset(
    {
        *("vim.Datacenter", "vim.Folder", "vim.ComputeResource", HOST, "vim.ResourcePool", "vim.Datastore"),
        *("vim.Network", SWITCH),
    }
)
"""Types of all that privileges are needed on, but VMs; others are of these types, too."""
ROLES = (Paths("vim.Folder", ("effectiveRole",), NO_PARTS),)
"""Which roles the account has on a folder."""


def with_roles(wanted: Sequence[Paths], *, of_vms: bool) -> tuple[Paths, ...]:
    """Add the roles that the account has on each object: of a close pass on VMs, else on all but VMs."""
    types = {VM} if of_vms else _ENTITIES
    return tuple(
        replace(one, paths=(*one.paths, "effectiveRole")) if one.type_name in types else one for one in wanted
    )


HOST_AGAIN = (Paths(HOST, HOST_LIGHT + HOST_DETAIL, OF_HOSTS),)
"""A few hosts once more, whole."""

VM_AGAIN = (Paths(VM, VM_LIGHT + VM_DETAIL, OF_VMS),)
"""A few VMs once more, whole."""

TIES = (Paths(CLUSTER, ("configurationEx",)),)
"""The rules and groups of a cluster."""

PORTGROUPS = (Paths("vim.dvs.DistributedVirtualPortgroup", ("name",)),)
"""What the portgroups of a switch are called."""

HOLDERS = (Paths(HOST, ("config.graphicsInfo",), OF_HOSTS),)
"""Which VMs hold which GPUs now."""
