"""Which parts of hosts' and VMs' properties a reading keeps: the table by property path.

A property of one value, a text, a number or what it refers to, needs no row: the API's types say what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.vsphere.wire.kept import Kept, Shape

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
        Kept("vim.host.SriovInfo", _HANDED_THROUGH + _VIRTUAL_FUNCTIONS),
        Kept("vim.host.PciPassthruInfo", _HANDED_THROUGH),
    ),
    "config.network.pnic": (
        Kept("vim.host.PhysicalNic", ("device", "mac", "driver", "pci"), {"linkSpeed": _SPEED}),
    ),
    "hardware.numaInfo": (Kept("vim.host.NumaInfo", (), {"numaNode": (Kept("vim.host.NumaNode", _NODE),)}),),
    "hardware.pciDevice": (Kept("vim.host.PciDevice", _PCI),),
}

NO_PARTS: Mapping[str, Shape] = {}
"""Of objects whose properties that are read have no parts, or are read whole."""
