"""What is kept of a vendor's device groups: every part, by what its device says."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, GroupPart
from vgpu_cfg.vsphere.reading.host_kinds import make_group

_Group: Any = vim.vm.VendorDeviceGroupInfo
_device = vim.vm.device
_passthrough: Any = _device.VirtualPCIPassthrough
_vgpu = _passthrough.VmiopBackingInfo(vgpu="nvidia_h100xm-80c")


def _part(kind: str, device: Any, sequence: int, name: str = "") -> Any:
    device.key = -(100 + sequence)
    device.deviceGroupInfo = _device.VirtualDevice.DeviceGroupInfo(groupInstanceKey=-1, sequenceId=sequence)
    return _Group.ComponentDeviceInfo(
        type=kind, vendorName="maker", deviceName=name, isConfigurable=kind == "sriovNic", device=device
    )


def test_a_group_of_a_gpu_and_nics_is_kept_whole() -> None:
    allowed = _passthrough.AllowedDevice(vendorId=0x15B3, deviceId=0x1021, subVendorId=0x15B3 - 0x10000)
    dynamic = _passthrough.DynamicBackingInfo(deviceName="", allowedDevice=[allowed], customLabel="rail")
    physical = _passthrough.DeviceBackingInfo(
        deviceName="", id="0000:4c:00.0", deviceId="101d", systemId="", vendorId=0x15B3
    )
    virtual = _device.VirtualSriovEthernetCard(
        sriovBacking=_device.VirtualSriovEthernetCard.SriovBackingInfo(physicalFunctionBacking=physical)
    )
    info = _Group(
        name="g",
        deviceGroupName="any words",
        deviceGroupDescription="a GPU and what is near it",
        componentDeviceInfo=[
            _part("nvidiaVgpu", _passthrough(backing=_vgpu), 0, "H100"),
            _part("pciPassthru", _passthrough(backing=dynamic), 1, "ConnectX-7"),
            _part("sriovNic", virtual, 2),
            _part("dvx", _passthrough(backing=_passthrough.DvxBackingInfo(deviceClass="com.maker.x")), 3),
            _part("of tomorrow", _device.VirtualDevice(), 4),
        ],
    )
    group = make_group(info)
    assert (group.name, group.description, group.peers) == (
        "any words",
        "a GPU and what is near it",
        ("", 0),
    )
    gpu, nic, function, dvx, later = group.parts
    assert gpu == GroupPart(
        kind="nvidiaVgpu", vendor="maker", name="H100", profile="nvidia_h100xm-80c", sequence=0
    )
    assert (nic.kind, nic.allowed, nic.sub_ids, nic.label) == (
        "pciPassthru",
        ((0x15B3, 0x1021),),
        ((0x15B3, None, None),),
        "rail",
    )
    assert (function.kind, function.pci_id) == ("sriovNic", "0000:4c:00.0")
    assert (dvx.kind, dvx.device_class) == ("dvx", "com.maker.x")
    assert (later.kind, later.sequence) == ("of tomorrow", 4)


def test_peers_are_vgpus_of_one_profile_and_nothing_else() -> None:
    pair = DeviceGroupInfo.of_peers("pair", "grid_a100d-80c", 2)
    assert pair.peers == ("grid_a100d-80c", 2)
    nic = GroupPart(kind="pciPassthru", allowed=((0x15B3, 0x1021),))
    other = GroupPart(kind="nvidiaVgpu", profile="grid_a100d-40c")
    for parts in ((*pair.parts, nic), (*pair.parts, other), pair.parts[:1], ()):
        assert pair.model_copy(update={"parts": parts}).peers == ("", 0)
