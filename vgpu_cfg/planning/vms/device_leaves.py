"""What goes over the wire for a device of a VM: the fields of its VirtualDeviceSpec that a plan decides.

Paths are those of the ConfigSpec, with the operation in the place of the number:
`deviceChange[add].device.…`. What a server needs besides (keys, units, whether a NIC is connected) follows
from the kind of device and is not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from vgpu_cfg.model.vm_spec import (
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
    RemoveDevice,
)

ADD = "deviceChange[add].device"
EDIT = "deviceChange[edit].device"
REMOVE = "deviceChange[remove].device"


def device_leaves(device: DeviceEdit) -> dict[str, str]:
    """Return the fields of one device's edit."""
    match device:
        case NewVgpu():
            return {f"{ADD}.backing.vgpu": device.profile} | _node(device.numa_node)
        case NewPassthrough():
            return {f"{ADD}.backing.id": device.pci_id} | _node(device.numa_node)
        case NewDynamicPassthrough():
            return _dynamic(device) | _node(device.numa_node)
        case NewNic() | NewPvrdmaNic():
            return _network(ADD, device.backing) | _mac(ADD, device.mac)
        case NewSriovNic():
            physical = {f"{ADD}.sriovBacking.physicalFunctionBacking.id": device.function}
            mtu = {f"{ADD}.allowGuestOSMtuChange": str(device.allow_mtu_change).lower()}
            return _network(ADD, device.backing) | _mac(ADD, device.mac) | physical | mtu
        case EditNic():
            return _network(EDIT, device.backing) | _mac(EDIT, device.mac)
        case NewDisk():
            return {f"{ADD}.capacityInKB": str(device.size_mib << 10)}
        case GrowDisk():
            return {f"{EDIT}.capacityInKB": str(device.size_mib << 10)}
        case NewTpm():
            return {ADD: "VirtualTPM"}
        case RemoveDevice():
            return {f"{REMOVE}.key": str(device.key)}
        case _:
            assert_never(device)


def group_leaves(groups: Mapping[int, str]) -> dict[str, str]:
    """Return the fields of the device groups that are added."""
    names = sorted(groups.values())
    return {"deviceGroups.deviceGroup.deviceGroupName": ", ".join(names)} if names else {}


def _node(numa_node: int | None) -> dict[str, str]:
    return {} if numa_node is None else {f"{ADD}.numaNode": str(numa_node)}


def _mac(path: str, mac: str | None) -> dict[str, str]:
    return {} if mac is None else {f"{path}.macAddress": mac}


def _network(path: str, backing: NicBacking) -> dict[str, str]:
    if backing.portgroup_key is not None:
        return {f"{path}.backing.port.portgroupKey": backing.portgroup_key}
    return {f"{path}.backing.network": backing.network_moid}


def _dynamic(device: NewDynamicPassthrough) -> dict[str, str]:
    ids = ", ".join(f"{vendor:04x}:{model:04x}" for vendor, model in device.allowed)
    label = {f"{ADD}.backing.customLabel": device.label} if device.label else {}
    return {f"{ADD}.backing.allowedDevice": ids} | label
