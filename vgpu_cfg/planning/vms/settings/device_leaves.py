"""What goes over the wire for a device of a VM: the fields of its VirtualDeviceSpec that a plan decides.

Paths are those of the ConfigSpec without `device`, with the number of the device within its edit in the place
of the list's: `deviceChange[1].backing.vgpu`. What a server needs besides (keys, units, whether a NIC is
connected) follows from the kind of device and is not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from vgpu_cfg.changes.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    NewVgpu,
    NicBacking,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
)

PVRDMA_PROTOCOL = "rocev2"
"""Of `VirtualVmxnet3VrdmaOption.deviceProtocol`: rocev1 or rocev2; what hosts of today speak."""


def device_leaves(device: DeviceEdit, number: int) -> dict[str, str]:
    """Return the fields of one device's edit; `number` tells it from others of the same edit."""
    at = f"deviceChange[{number}]"
    match device:
        case NewVgpu():
            return {f"{at}.backing.vgpu": device.profile} | _node(at, device.numa_node)
        case NewPassthrough():
            return {f"{at}.backing.id": device.pci_id} | _node(at, device.numa_node)
        case NewDynamicPassthrough():
            return _dynamic(at, device) | _node(at, device.numa_node)
        case NewNic():
            return _network(at, device.backing) | _mac(at, device.mac)
        case NewPvrdmaNic():
            protocol = {f"{at}.deviceProtocol": PVRDMA_PROTOCOL}
            return _network(at, device.backing) | _mac(at, device.mac) | protocol
        case NewSriovNic():
            physical = {f"{at}.sriovBacking.physicalFunctionBacking.id": device.function}
            mtu = {f"{at}.allowGuestOSMtuChange": str(device.allow_mtu_change).lower()}
            return _network(at, device.backing) | _mac(at, device.mac) | physical | mtu
        case EditNic():
            return _network(at, device.backing) | _mac(at, device.mac)
        case NewDisk():
            thin = {f"{at}.backing.thinProvisioned": "true"}
            return _size(at, device.size_mib) | thin | policy_leaves(at, device.policy)
        case GrowDisk():
            return _size(at, device.size_mib)
        case SetDiskPolicy():
            return policy_leaves(at, device.policy)
        case NewTpm():
            return {f"{at}.operation": "add"}
        case RemoveDevice():
            return {f"{at}.operation": "remove"}
        case _:
            assert_never(device)


def group_leaves(groups: Mapping[int, str]) -> dict[str, str]:
    """Return the fields of the device groups that are added."""
    return {f"deviceGroups.deviceGroup[{key}].deviceGroupName": name for key, name in sorted(groups.items())}


def policy_leaves(at: str, policy: PolicyRef | None, field: str = "profile") -> dict[str, str]:
    """Return the field that names a storage policy, below `at`."""
    path = f"{at}.{field}" if at else field
    return {} if policy is None else {f"{path}[*].profileId": policy.id}


def _node(at: str, numa_node: int | None) -> dict[str, str]:
    return {} if numa_node is None else {f"{at}.numaNode": str(numa_node)}


def _mac(at: str, mac: str | None) -> dict[str, str]:
    return {} if mac is None else {f"{at}.macAddress": mac}


def _size(at: str, size_mib: int) -> dict[str, str]:
    return {f"{at}.capacityInKB": str(size_mib << 10)}


def _network(at: str, backing: NicBacking) -> dict[str, str]:
    if backing.portgroup_key is not None:
        return {f"{at}.backing.port.portgroupKey": backing.portgroup_key}
    return {f"{at}.backing.network": backing.network_moid, f"{at}.backing.deviceName": backing.network_name}


_SUB_IDS = ("subVendorId", "subDeviceId", "revisionId")


def _dynamic(at: str, device: NewDynamicPassthrough) -> dict[str, str]:
    leaves = {f"{at}.backing.customLabel": device.label} if device.label else {}
    for vendor, model in device.allowed:
        leaves[f"{at}.backing.allowedDevice[{model}].vendorId"] = str(vendor)
        leaves[f"{at}.backing.allowedDevice[{model}].deviceId"] = str(model)
    for (_, model), ids in zip(device.allowed, device.sub_ids, strict=False):
        for name, value in zip(_SUB_IDS, ids, strict=True):
            if value is not None:
                leaves[f"{at}.backing.allowedDevice[{model}].{name}"] = str(value)
    return leaves
