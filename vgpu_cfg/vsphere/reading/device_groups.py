"""What a vendor's device group is made of, as a host tells it: each part's kind, and which device it is."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, GroupPart
from vgpu_cfg.vsphere.reading.vms import dvx, nics, passthroughs, vgpus


def make_group(info: Any) -> DeviceGroupInfo:
    """Make a device group of vim `VendorDeviceGroupInfo`."""
    return DeviceGroupInfo(
        name=info.deviceGroupName,
        description=info.deviceGroupDescription or "",
        parts=tuple(_part(component) for component in info.componentDeviceInfo or ()),
    )


def _part(component: Any) -> GroupPart:
    """Keep a part whole; one whose device is of a kind that is not known keeps its words."""
    device = component.device
    place = getattr(device, "deviceGroupInfo", None)
    part = GroupPart(
        kind=str(component.type),
        vendor=component.vendorName or "",
        name=component.deviceName or "",
        sequence=None if place is None else place.sequenceId,
    )
    return part.model_copy(update=_told_by([device]))


def _told_by(devices: list[Any]) -> dict[str, Any]:
    for vgpu in vgpus(devices):
        return {"profile": vgpu.profile}
    for passed in passthroughs(devices):
        return {
            "pci_id": passed.pci_id,
            "allowed": passed.allowed,
            "sub_ids": passed.sub_ids,
            "label": passed.label,
        }
    for other in dvx(devices):
        return {"device_class": other.device_class}
    for nic in nics(devices):
        return {"pci_id": nic.function, "device_class": nic.dvx_class}
    return {}
