"""The virtual devices of VMs as vCenter numbers them: which key a kind of device gets, and its controller.

Device values are shared between VMs and never changed in place; a change makes a new one. Keys: SCSI
controllers 1000+, disks 2000+, NICs 4000+, a virtual TPM 11000 (VMware's PowerCLI module for VM encryption
adds it under that key), PCI passthrough 13000+ ascending (key − 13000 is the `n` of `pciPassthru<n>`), SR-IOV
NICs 13031 downwards, NVMe controllers 31000+ with disks 32000+.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.state.inventory import LabState, Network
from vgpu_cfg.model.vgpu import VgpuProfile

Devices = dict[int, Any]

PCI_CONTROLLER = 100
SCSI_CONTROLLER = 1000
FIRST_DISK = 2000
FIRST_NIC = 4000
LAST_NIC = 4099
TPM = 11000
FIRST_PASSTHROUGH = 13000
LAST_SRIOV = 13031
FIRST_PASSTHROUGH_UNIT = 18
MOST_NICS = 10

_VD = vim.vm.device
_Vmiop = _VD.VirtualPCIPassthrough.VmiopBackingInfo
_Fixed = _VD.VirtualPCIPassthrough.DeviceBackingInfo
_Dynamic = _VD.VirtualPCIPassthrough.DynamicBackingInfo


@dataclass(frozen=True, slots=True)
class NicSeed:
    """A vmxnet3 NIC to be: its network, as a backing needs it."""

    network: str
    network_name: str
    switch_uuid: str = ""
    mac: str = ""


@dataclass(frozen=True, slots=True)
class DeviceSeed:
    """The devices of a VM in short: made into values at the first request."""

    name: str
    datastore: str
    datastore_name: str
    disks_mib: tuple[int, ...]
    nics: tuple[NicSeed, ...] = ()
    passthrough: tuple[Any, ...] = ()
    """Backings."""
    groups: tuple[tuple[int, int] | None, ...] = ()
    """(group's instance key, sequence id) of the passthrough devices, as far as it goes."""
    has_tpm: bool = False

    def make(self) -> Devices:
        """Make the device values by key."""
        devices = dict(standard_devices())
        for index, size in enumerate(self.disks_mib):
            key = FIRST_DISK + disk_unit(index)
            devices[key] = self._disk(key, index, size)
        for index, nic in enumerate(self.nics):
            devices[FIRST_NIC + index] = _nic(FIRST_NIC + index, index, nic)
        for (index, backing), group in zip_longest(
            enumerate(self.passthrough), self.groups[: len(self.passthrough)]
        ):
            device = passthrough_device(FIRST_PASSTHROUGH + index, backing)
            if group is not None:
                info: Any = _VD.VirtualDevice.DeviceGroupInfo
                device.deviceGroupInfo = info(groupInstanceKey=group[0], sequenceId=group[1])
            devices[device.key] = device
        if self.has_tpm:
            devices[TPM] = tpm_device()
        return devices

    def _disk(self, key: int, index: int, size_mib: int) -> Any:
        suffix = f"_{index}" if index else ""
        backing = _VD.VirtualDisk.FlatVer2BackingInfo(
            fileName=f"[{self.datastore_name}] {self.name}/{self.name}{suffix}.vmdk",
            datastore=vim.Datastore(self.datastore),
            uuid=disk_uuid(self.datastore, self.name, str(index)),
            diskMode="persistent",
            thinProvisioned=True,
        )
        return _VD.VirtualDisk(
            key=key,
            deviceInfo=description(f"Hard disk {index + 1}", f"{size_mib * 1024:,} KB"),
            backing=backing,
            controllerKey=SCSI_CONTROLLER,
            unitNumber=disk_unit(index),
            capacityInKB=size_mib * 1024,
            capacityInBytes=size_mib * 1024 * 1024,
        )


def seed_devices(seed: DeviceSeed) -> partial[Devices]:
    """Return what `VirtualMachine.seed` takes."""
    return partial(DeviceSeed.make, seed)


def disk_uuid(*parts: str) -> str:
    """Return a disk's UUID that is unique for these parts, in ESXi's form."""
    digest = sha256(" ".join(parts).encode()).hexdigest()
    return f"6000C29{digest[0]}-{digest[1:5]}-{digest[5:9]}-{digest[9:13]}-{digest[13:25]}"


def with_uuid(disk: Any) -> Any:
    """Return a disk that the lab has kept without a UUID with the one that its file has."""
    backing = disk.backing
    if not (hasattr(backing, "uuid") and backing.datastore is not None):
        return disk
    path = str(backing.fileName or "").partition("]")[2].strip()
    return copy_with(disk, backing=copy_with(backing, uuid=disk_uuid(backing.datastore._moId, path)))


def disk_unit(index: int) -> int:
    """Return the unit of the n-th disk of a SCSI controller: 7 is the controller's own."""
    return index if index < 7 else index + 1


@lru_cache(maxsize=1)
def standard_devices() -> Mapping[int, Any]:
    """Return the devices that every VM has, shared by all."""
    made = [
        _VD.VirtualIDEController(key=200, deviceInfo=description("IDE 0", "IDE 0"), busNumber=0),
        _VD.VirtualIDEController(key=201, deviceInfo=description("IDE 1", "IDE 1"), busNumber=1),
        _VD.VirtualPS2Controller(
            key=300, deviceInfo=description("PS2 controller 0", "PS2 controller 0"), busNumber=0
        ),
        _VD.VirtualPCIController(
            key=PCI_CONTROLLER, deviceInfo=description("PCI controller 0", "PCI controller 0"), busNumber=0
        ),
        _VD.VirtualSIOController(
            key=400, deviceInfo=description("SIO controller 0", "SIO controller 0"), busNumber=0
        ),
        _VD.VirtualKeyboard(
            key=600, deviceInfo=description("Keyboard ", "Keyboard"), controllerKey=300, unitNumber=0
        ),
        _VD.VirtualPointingDevice(
            key=700,
            deviceInfo=description("Pointing device", "Pointing device; Device"),
            backing=_VD.VirtualPointingDevice.DeviceBackingInfo(
                deviceName="", useAutoDetect=False, hostPointingDevice="autodetect"
            ),
            controllerKey=300,
            unitNumber=1,
        ),
        _VD.VirtualVideoCard(
            key=500,
            deviceInfo=description("Video card ", "Video card"),
            controllerKey=PCI_CONTROLLER,
            unitNumber=0,
            videoRamSizeInKB=4096,
            numDisplays=1,
            useAutoDetect=False,
            enable3DSupport=False,
            use3dRenderer="automatic",
            graphicsMemorySizeInKB=262144,
        ),
        _VD.VirtualVMCIDevice(
            key=12000,
            deviceInfo=description("VMCI device", "Device on the virtual machine PCI bus"),
            controllerKey=PCI_CONTROLLER,
            unitNumber=17,
            allowUnrestrictedCommunication=False,
        ),
        _VD.ParaVirtualSCSIController(
            key=SCSI_CONTROLLER,
            deviceInfo=description("SCSI controller 0", "VMware paravirtual SCSI"),
            controllerKey=PCI_CONTROLLER,
            unitNumber=3,
            busNumber=0,
            hotAddRemove=True,
            sharedBus="noSharing",
            scsiCtlrUnitNumber=7,
        ),
    ]
    return {device.key: device for device in made}


def description(label: str, summary: str) -> Any:
    """Return a device's label and summary."""
    return vim.Description(label=label, summary=summary)


def nic_backing(network: Network, switch_uuid: str) -> Any:
    """Return the backing of a NIC on a portgroup."""
    return _nic_backing(NicSeed(network.moid, network.name, switch_uuid))


def _nic_backing(nic: NicSeed) -> Any:
    if nic.switch_uuid:
        port = vim.dvs.PortConnection(switchUuid=nic.switch_uuid, portgroupKey=nic.network)
        return _VD.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    return _VD.VirtualEthernetCard.NetworkBackingInfo(
        deviceName=nic.network_name, network=vim.Network(nic.network), useAutoDetect=False
    )


def _nic(key: int, index: int, nic: NicSeed) -> Any:
    return _VD.VirtualVmxnet3(
        key=key,
        deviceInfo=description(f"Network adapter {index + 1}", nic.network_name),
        backing=_nic_backing(nic),
        connectable=_VD.VirtualDevice.ConnectInfo(
            startConnected=True, allowGuestControl=True, connected=True, status="ok"
        ),
        controllerKey=PCI_CONTROLLER,
        unitNumber=7 + index,
        addressType="assigned",
        macAddress=nic.mac,
        wakeOnLanEnabled=True,
        uptCompatibilityEnabled=True,
    )


def passthrough_device(key: int, backing: Any) -> Any:
    """Return a PCI passthrough device (vGPU, fixed or dynamic) with the label vCenter gives it."""
    return _VD.VirtualPCIPassthrough(
        key=key,
        deviceInfo=description(f"PCI device {key - FIRST_PASSTHROUGH}", backing_summary(backing)),
        backing=shown_backing(backing),
        controllerKey=PCI_CONTROLLER,
        unitNumber=FIRST_PASSTHROUGH_UNIT + key - FIRST_PASSTHROUGH,
    )


def backing_summary(backing: Any) -> str:
    """Return the summary line of a passthrough device."""
    return f"NVIDIA GRID vGPU {backing.vgpu}" if isinstance(backing, _Vmiop) else backing.deviceName or ""


def vgpu_backing(profile: str) -> Any:
    """Return the backing of a vGPU as a client writes it."""
    return _Vmiop(vgpu=profile)


def dynamic_backing(allowed: Iterable[tuple[int, int]], label: str | None = None) -> Any:
    """Return the backing of a Dynamic DirectPath device of any of these (vendor id, device id)."""
    passthrough: Any = _VD.VirtualPCIPassthrough
    devices = [passthrough.AllowedDevice(vendorId=vendor, deviceId=device) for vendor, device in allowed]
    return passthrough.DynamicBackingInfo(deviceName="", allowedDevice=devices, customLabel=label)


@lru_cache(maxsize=1024)
def _shown_vgpu(profile: str) -> Any:
    """Return the backing of a vGPU as the server shows it.

    The migrated size is the framebuffer: an upper bound of the lab's own. `enhancedMigrateCapability` is left
    out, since its conditions were not found.
    """
    size = VgpuProfile.parse(profile).framebuffer_gb * 1024
    return _Vmiop(vgpu=profile, migrateSupported=True, vgpuMigrateDataSizeMB=size)


def shown_backing(backing: Any) -> Any:
    """Return a passthrough device's backing with what only the server knows of a vGPU."""
    return _shown_vgpu(backing.vgpu) if isinstance(backing, _Vmiop) and backing.vgpu else backing


def mac_of(number: int, index: int, state: LabState) -> str:
    """Return a MAC of the range that vCenter gives out, 00:50:56:80 to 00:50:56:bf."""
    value = number * 16 + index
    first = "02" if state.denies("generated-mac-ranges") else "00"
    return f"{first}:50:56:{0x80 + (value >> 16 & 0x3F):02x}:{value >> 8 & 0xFF:02x}:{value & 0xFF:02x}"


def tpm_device() -> Any:
    """Return a virtual TPM as the server shows it; its certificates are left out."""
    label = "Virtual TPM"
    return _VD.VirtualTPM(key=TPM, deviceInfo=description(label, label), controllerKey=PCI_CONTROLLER)


def has_tpm(devices: Mapping[int, Any]) -> bool:
    """Whether there is a virtual TPM among devices."""
    return any(isinstance(device, _VD.VirtualTPM) for device in devices.values())


def is_passthrough(device: Any) -> bool:
    """Whether a device hands PCI functions through, whole or as vGPU (SR-IOV NICs are not counted)."""
    return isinstance(device, _VD.VirtualPCIPassthrough)


def vgpus_of(devices: Mapping[int, Any]) -> list[tuple[int, str]]:
    """Return (key, profile) of every vGPU, by key."""
    found = (
        (key, device.backing.vgpu or "")
        for key, device in devices.items()
        if is_passthrough(device) and isinstance(device.backing, _Vmiop)
    )
    return sorted(found)


def groups_of(devices: Mapping[int, Any]) -> dict[int, list[int]]:
    """Return the device keys of each device group by its instance key, in the order of sequence ids."""
    found: dict[int, list[int]] = {}
    grouped = [device for device in devices.values() if device.deviceGroupInfo is not None]
    for device in sorted(grouped, key=lambda device: device.deviceGroupInfo.sequenceId):
        found.setdefault(device.deviceGroupInfo.groupInstanceKey, []).append(device.key)
    return found


def fixed_of(devices: Mapping[int, Any]) -> list[Any]:
    """Return the fixed passthrough devices, by key."""
    return _by_backing(devices, _Fixed)


def dynamic_of(devices: Mapping[int, Any]) -> list[Any]:
    """Return the dynamic passthrough devices, by key."""
    return _by_backing(devices, _Dynamic)


def nics_of(devices: Mapping[int, Any]) -> list[Any]:
    """Return the NICs, by key."""
    return [device for _, device in sorted(devices.items()) if isinstance(device, _VD.VirtualEthernetCard)]


def disks_of(devices: Mapping[int, Any]) -> list[Any]:
    """Return the disks, by key."""
    return [device for _, device in sorted(devices.items()) if isinstance(device, _VD.VirtualDisk)]


def _by_backing(devices: Mapping[int, Any], kind: type) -> list[Any]:
    return [
        device
        for _, device in sorted(devices.items())
        if is_passthrough(device)
        and type(device.backing) is kind  # a dynamic backing is no kind of the fixed one
    ]


def network_of(nic: Any) -> str:
    """Return the moid of a NIC's network, empty where its backing names none."""
    backing = nic.backing
    if isinstance(backing, _VD.VirtualEthernetCard.DistributedVirtualPortBackingInfo):
        return str(backing.port.portgroupKey or "")
    network = getattr(backing, "network", None)
    return str(network._GetMoId()) if network is not None else ""


def copy_with(device: Any, /, **changes: Any) -> Any:
    """Return a copy of a device (or backing) with some fields changed."""
    kind: Any = type(device)
    made = kind()
    for name in _fields(kind):
        value = getattr(device, name)
        if value is not None:
            setattr(made, name, value)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def merged(old: Any, sent: Any) -> Any:
    """Return a data object with the sent fields set, and the rest unchanged; inner objects likewise."""
    if type(old) is not type(sent) or not isinstance(sent, VmomiSupport.DataObject):
        return old if sent is None else sent
    made = copy_with(old)
    kind: Any = type(sent)
    for name in _fields(kind):
        value = getattr(sent, name)
        if isinstance(value, VmomiSupport.DataObject):
            setattr(made, name, merged(getattr(old, name), value))
        elif is_set(value):
            setattr(made, name, value)
    return made


def is_set(value: Any) -> bool:
    """Whether a field of a data object holds something; a reference must not be compared with `==`."""
    return value is not None and not (isinstance(value, list) and not value)


@lru_cache(maxsize=256)
def _fields(kind: Any) -> Sequence[str]:
    return tuple(info.name for info in kind._GetPropertyList())
