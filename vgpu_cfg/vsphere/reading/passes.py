"""The fixed list of properties that a reading asks for, pass by pass, and the parts of them that it keeps.

The list does not depend on the plan: that is what makes a recording answer any plan.

The kept parts of hosts' and VMs' properties are a table by property path. A property of one value, a text, a
number or a reference, needs no row: the API's types describe it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, NAMESPACED_NAME_KEY
from vgpu_cfg.planning.vms.settings.table import READ_PATHS
from vgpu_cfg.vsphere.wire.collector import Paths
from vgpu_cfg.vsphere.wire.decoding import Kept, Shape

_DEVICE = "vim.vm.device"
_CARD = f"{_DEVICE}.VirtualEthernetCard"
_PASSTHROUGH = f"{_DEVICE}.VirtualPCIPassthrough"

_OPTION = (Kept("vim.option.OptionValue", ("key", "value")),)
_CUSTOM_FIELD = (Kept("vim.CustomFieldsManager.FieldDef", ("key", "name")),)
_CUSTOM_VALUE = (
    Kept("vim.CustomFieldsManager.StringValue", ("key", "value")),
    Kept("vim.CustomFieldsManager.Value", ("key",)),
)

_IN_GROUP = (Kept(f"{_DEVICE}.VirtualDevice.DeviceGroupInfo", ("groupInstanceKey", "sequenceId")),)
_DVX = Kept(f"{_PASSTHROUGH}.DvxBackingInfo", ("deviceClass",), {"configParams": _OPTION})
_FUNCTION = Kept(f"{_PASSTHROUGH}.DeviceBackingInfo", ("id", "systemId"))
_ALLOWED = Kept(
    f"{_PASSTHROUGH}.AllowedDevice", ("vendorId", "deviceId", "subVendorId", "subDeviceId", "revisionId")
)
_FUNCTIONS = (
    Kept(f"{_PASSTHROUGH}.VmiopBackingInfo", ("vgpu", "migrateSupported")),
    _DVX,
    _FUNCTION,
    Kept(f"{_PASSTHROUGH}.DynamicBackingInfo", ("customLabel", "assignedId"), {"allowedDevice": (_ALLOWED,)}),
)
_PORT = (Kept("vim.dvs.PortConnection", ("portgroupKey",)),)
_NETWORKS = (
    Kept(f"{_CARD}.DistributedVirtualPortBackingInfo", (), {"port": _PORT}),
    Kept(f"{_CARD}.NetworkBackingInfo", ("network",)),
    Kept(f"{_CARD}.OpaqueNetworkBackingInfo", ("opaqueNetworkId",)),
)
_OF_A_CARD: Mapping[str, Shape] = {"backing": _NETWORKS, "deviceGroupInfo": _IN_GROUP}
_SRIOV = Kept(
    f"{_DEVICE}.VirtualSriovEthernetCard.SriovBackingInfo", (), {"physicalFunctionBacking": (_FUNCTION,)}
)
_DISK = f"{_DEVICE}.VirtualDisk"
_FILE = ("fileName", "datastore", "uuid")
_DELTAS = ("FlatVer2", "SeSparse", "SparseVer2", "FlatVer1", "SparseVer1")
_DISK_BACKINGS = (
    *(
        Kept(
            f"{_DISK}.{name}BackingInfo",
            (*_FILE, "sharing") if name == "FlatVer2" else _FILE if "Ver1" not in name else _FILE[:2],
            {"parent": (Kept(f"{_DISK}.{name}BackingInfo", ("fileName",)),)},
        )
        for name in _DELTAS
    ),
    Kept(f"{_DISK}.RawDiskMappingVer1BackingInfo", (*_FILE, "lunUuid", "sharing")),
    Kept(f"{_DISK}.RawDiskVer2BackingInfo", ("uuid",)),
    Kept(f"{_DISK}.LocalPMemBackingInfo", _FILE),
    Kept(f"{_DEVICE}.VirtualDevice.FileBackingInfo", ("fileName", "datastore")),
)
_MEDIA = (
    Kept(f"{_DEVICE}.VirtualDevice.FileBackingInfo", ("fileName",)),
    Kept(f"{_DEVICE}.VirtualDevice.DeviceBackingInfo", ("deviceName",)),
    Kept(f"{_DEVICE}.VirtualDevice.RemoteDeviceBackingInfo", ("deviceName",)),
)
_CONNECTED = (Kept(f"{_DEVICE}.VirtualDevice.ConnectInfo", ("connected", "startConnected")),)
_DEVICES = (
    Kept(_PASSTHROUGH, ("key", "numaNode"), {"backing": _FUNCTIONS, "deviceGroupInfo": _IN_GROUP}),
    Kept(
        f"{_DEVICE}.VirtualSriovEthernetCard",
        ("key", "macAddress"),
        {**_OF_A_CARD, "sriovBacking": (_SRIOV,), "dvxBackingInfo": (_DVX,)},
    ),
    Kept(_CARD, ("key", "macAddress"), _OF_A_CARD),
    Kept(
        _DISK,
        ("key", "capacityInKB", "controllerKey"),
        {"backing": _DISK_BACKINGS, "vDiskId": (Kept("vim.vslm.ID", ("id",)),)},
    ),
    Kept(f"{_DEVICE}.VirtualCdrom", ("key",), {"backing": _MEDIA, "connectable": _CONNECTED}),
    Kept(f"{_DEVICE}.VirtualUSB", ("key",), {"backing": _MEDIA}),
    Kept(f"{_DEVICE}.VirtualSCSIController", ("key",)),
    Kept(f"{_DEVICE}.VirtualNVMEController", ("key",)),
    Kept(f"{_DEVICE}.VirtualSATAController", ("key",)),
    Kept(f"{_DEVICE}.VirtualIDEController", ("key",)),
    Kept(f"{_DEVICE}.VirtualTPM", ("key",)),
)
"""Of other devices of a VM nothing is kept."""

_ADDRESS = (Kept("vim.net.IpConfigInfo.IpAddress", ("ipAddress", "prefixLength", "state")),)
_GUEST_NIC = Kept(
    "vim.vm.GuestInfo.NicInfo",
    ("macAddress", "network", "ipAddress"),
    {"ipConfig": (Kept("vim.net.IpConfigInfo", (), {"ipAddress": _ADDRESS}),)},
)
_GROUPS = (
    Kept("vim.vm.VirtualDeviceGroups.VendorDeviceGroup", ("groupInstanceKey", "deviceGroupName")),
    Kept("vim.vm.VirtualDeviceGroups.DeviceGroup", ("groupInstanceKey",)),
)

OF_VMS: Mapping[str, Shape] = {
    "availableField": _CUSTOM_FIELD,
    "customValue": _CUSTOM_VALUE,
    "config.extraConfig": _OPTION,
    "config.hardware.device": _DEVICES,
    "config.deviceGroups": (Kept("vim.vm.VirtualDeviceGroups", (), {"deviceGroup": _GROUPS}),),
    "config.numaInfo": (Kept("vim.vm.VirtualNumaInfo", ("autoCoresPerNumaNode", "coresPerNumaNode")),),
    "guest.net": (_GUEST_NIC,),
}

_NODE = ("typeId", "cpuID", "memorySize", "memoryRangeLength", "pciId")
_PCI = (
    "id",
    "classId",
    "vendorId",
    "deviceId",
    "subVendorId",
    "subDeviceId",
    "vendorName",
    "deviceName",
    "parentBridge",
)
_HANDED_THROUGH = ("id", "passthruCapable", "passthruEnabled", "passthruActive", "hardwareLabel")
_VIRTUAL_FUNCTIONS = (
    "sriovCapable",
    "sriovEnabled",
    "sriovActive",
    "numVirtualFunction",
    "numVirtualFunctionRequested",
    "maxVirtualFunctionSupported",
)
_DEVICE_MODE = {
    "directPathState": (Kept("vim.host.PciPassthruInfo.DirectPathState", ("mode", "configurableModes")),)
}
_DEVICE_DRIVER = {"directPathInfo": (Kept("vim.host.PciDevice.DirectPathInfo", ("driverVersion",)),)}
_GRAPHICS = ("deviceName", "vendorName", "pciId", "graphicsType", "vgpuMode", "memorySizeInKB", "vm")
_GRAPHICS_TYPE = (Kept("vim.host.GraphicsConfig.DeviceType", ("deviceId", "graphicsType", "vgpuMode")),)
_SPEED = (Kept("vim.host.PhysicalNic.LinkSpeedDuplex", ("speedMb",)),)

OF_HOSTS: Mapping[str, Shape] = {
    "availableField": _CUSTOM_FIELD,
    "customValue": _CUSTOM_VALUE,
    "config.graphicsInfo": (Kept("vim.host.GraphicsInfo", _GRAPHICS),),
    "config.graphicsConfig": (
        Kept(
            "vim.host.GraphicsConfig",
            ("hostDefaultGraphicsType", "sharedPassthruAssignmentPolicy"),
            {"deviceType": _GRAPHICS_TYPE},
        ),
    ),
    "config.pciPassthruInfo": (
        Kept("vim.host.SriovInfo", _HANDED_THROUGH + _VIRTUAL_FUNCTIONS, _DEVICE_MODE),
        Kept("vim.host.PciPassthruInfo", _HANDED_THROUGH, _DEVICE_MODE),
    ),
    "config.network.pnic": (
        Kept("vim.host.PhysicalNic", ("device", "mac", "driver", "pci"), {"linkSpeed": _SPEED}),
    ),
    "hardware.numaInfo": (Kept("vim.host.NumaInfo", (), {"numaNode": (Kept("vim.host.NumaNode", _NODE),)}),),
    "hardware.pciDevice": (Kept("vim.host.PciDevice", _PCI, _DEVICE_DRIVER),),
}

NO_PARTS: Mapping[str, Shape] = {}
"""Of objects whose properties that are read have no parts, or are read whole."""

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
    "config.managedBy",
    extra_config_path(NAMESPACED_NAME_KEY),
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
    Paths(
        "vim.ResourcePool",
        (
            *("name", "parent", "owner", "runtime.memory.unreservedForVm"),
            *("runtime.memory.maxUsage", "runtime.memory.reservationUsed"),
        ),
        NO_PARTS,
    ),
    Paths(
        "vim.Datastore",
        (
            *("name", "parent", "summary.type", "summary.freeSpace", "summary.capacity"),
            *("summary.accessible", "summary.maintenanceMode"),
        ),
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
"""The properties of a VM's detail outside of its configuration."""

FIRST_PASS_AGAIN = (*FIRST_PASS[:-1], Paths(VM, (*VM_LIGHT, "config.changeVersion", *VM_MOVING), OF_VMS))
"""Every object again: for VMs the version of their configuration, and the values that change without it."""

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
"""The names of a switch's portgroups."""

HOLDERS = (Paths(HOST, ("config.graphicsInfo",), OF_HOSTS),)
"""Which VMs hold which GPUs now."""
