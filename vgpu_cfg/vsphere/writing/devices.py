"""The devices of a plan in vSphere's words: a VirtualDeviceSpec for each edit.

Several new devices in one ConfigSpec need distinct negative keys, and a disk needs a
controller with a free unit, so the edits of one VM are made together.

Belief: sriov-adapter-names-its-function.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import count
from typing import Any, assert_never

from pyVmomi import vim

from vgpu_cfg.changes.kinds.vm_spec import (
    PVRDMA_PROTOCOL,
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
from vgpu_cfg.errors import NotFound, VCenterError

FIRST_KEY = -101
SCSI_UNITS = tuple(unit for unit in range(16) if unit != 7)
"""Unit 7 is the controller itself."""
NVME_UNITS = tuple(range(15))
MOST_CONTROLLERS = 4

_Operation = vim.vm.device.VirtualDeviceSpec.Operation
_passthrough = vim.vm.device.VirtualPCIPassthrough
_sriov = vim.vm.device.VirtualSriovEthernetCard
_card = vim.vm.device.VirtualEthernetCard


def needs_current(edits: Iterable[DeviceEdit]) -> bool:
    """Whether the edits cannot be said without knowing the devices that the VM has now."""
    return any(
        isinstance(edit, EditNic | GrowDisk | NewDisk | SetDiskPolicy | RemoveDevice) for edit in edits
    )


def device_specs(edits: Sequence[DeviceEdit], current: Sequence[Any], vm: str) -> list[Any]:
    """Return a VirtualDeviceSpec for each edit, in their order, and for controllers that disks need.

    `current` are the VM's devices as they are now (of a clone: its template's).
    Raises NotFound where an edit names a device that is not there.
    """
    made = _Maker(current, vm)
    for edit in edits:
        made.add(edit)
    return made.specs


def group_instance_key(group: int) -> int:
    """Return the key that a new device group bears until the server gives it its own."""
    return -1 - group


def device_groups(groups: Mapping[int, str]) -> Any:
    """Return the device groups that a spec adds, by the keys that its devices name."""
    return vim.vm.VirtualDeviceGroups(
        deviceGroup=[
            vim.vm.VirtualDeviceGroups.VendorDeviceGroup(
                groupInstanceKey=group_instance_key(group), deviceGroupName=name
            )
            for group, name in sorted(groups.items())
        ]
    )


class _Maker:
    """Collects the device specs of one VM."""

    def __init__(self, current: Sequence[Any], vm: str) -> None:
        self.specs: list[Any] = []
        self._vm = vm
        self._devices = list(current)
        self._keys = count(FIRST_KEY, -1)

    def add(self, edit: DeviceEdit) -> None:
        """Add what one edit asks for."""
        match edit:
            case NewVgpu():
                self._new_gpu(_passthrough.VmiopBackingInfo(vgpu=edit.profile), edit)
            case NewPassthrough():
                self._new_gpu(_fixed_backing(edit), edit)
            case NewDynamicPassthrough():
                self._new_gpu(_dynamic_backing(edit), edit)
            case NewNic():
                self._new(self._nic(edit))
            case NewSriovNic():
                self._new(self._sriov_nic(edit))
            case NewPvrdmaNic():
                self._new(self._pvrdma_nic(edit))
            case EditNic():
                self._edit_nic(edit)
            case NewDisk():
                self._new_disk(edit)
            case NewTpm():
                self._new(vim.vm.device.VirtualTPM(key=next(self._keys)))
            case GrowDisk():
                disk = self._edited(edit.key).device
                disk.capacityInKB = edit.size_mib << 10
                disk.capacityInBytes = edit.size_mib << 20
            case SetDiskPolicy():
                self._edited(edit.key).profile = profile_specs(edit.policy)
            case RemoveDevice():
                self._put(_Operation.remove, self._find(edit.key))
            case _:
                assert_never(edit)

    def _put(self, operation: Any, device: Any) -> Any:
        spec = vim.vm.device.VirtualDeviceSpec(operation=operation, device=device)
        self.specs.append(spec)
        return spec

    def _edited(self, key: int) -> Any:
        """Return the spec that edits a device: one for all edits of it, since a request names it once."""
        known = (one for one in self.specs if one.device.key == key and one.operation == _Operation.edit)
        return next(known, None) or self._put(_Operation.edit, self._find(key))

    def _new(self, device: Any) -> Any:
        self._devices.append(device)
        return self._put(_Operation.add, device)

    def _new_gpu(self, backing: Any, edit: NewVgpu | NewPassthrough | NewDynamicPassthrough) -> None:
        """Add a device; a member of a device group is made afresh, not from the host's template of it."""
        device = _passthrough(key=next(self._keys), backing=backing)
        if edit.numa_node is not None:
            device.numaNode = edit.numa_node
        if not isinstance(edit, NewPassthrough) and edit.group is not None:
            # Belief: group-sequence-from-zero, group-nic-is-dynamic-directpath.
            device.deviceGroupInfo = vim.vm.device.VirtualDevice.DeviceGroupInfo(
                groupInstanceKey=group_instance_key(edit.group), sequenceId=edit.sequence or 0
            )
        self._new(device)

    def _find(self, key: int) -> Any:
        for device in self._devices:
            if device.key == key:
                return device
        raise NotFound(
            f"device {key} no longer exists", subject=self._vm, remedy="plan again; the VM has changed"
        )

    def _nic(self, edit: NewNic) -> Any:
        card = vim.vm.device.VirtualVmxnet3(
            key=next(self._keys), backing=nic_backing(edit.backing), connectable=_from_the_start()
        )
        _set_mac(card, edit.mac)
        return card

    def _pvrdma_nic(self, edit: NewPvrdmaNic) -> Any:
        """Make a paravirtual RDMA NIC, of the protocol that hosts of today speak (RoCE version 2)."""
        card = vim.vm.device.VirtualVmxnet3Vrdma(
            key=next(self._keys),
            backing=nic_backing(edit.backing),
            connectable=_from_the_start(),
            deviceProtocol=PVRDMA_PROTOCOL,
        )
        _set_mac(card, edit.mac)
        return card

    def _sriov_nic(self, edit: NewSriovNic) -> Any:
        """Name the physical function by its address alone, as VMware's own clients do.

        The server writes the ids of the backing itself (seen on vSphere 8.0.3).
        """
        card = _sriov(
            key=next(self._keys),
            backing=nic_backing(edit.backing),
            connectable=_from_the_start(),
            sriovBacking=_sriov.SriovBackingInfo(
                physicalFunctionBacking=_passthrough.DeviceBackingInfo(id=edit.function)
            ),
            allowGuestOSMtuChange=edit.allow_mtu_change,
        )
        _set_mac(card, edit.mac)
        return card

    def _edit_nic(self, edit: EditNic) -> None:
        card = self._find(edit.key)
        card.backing = nic_backing(edit.backing)
        if edit.mac is not None:
            _set_mac(card, edit.mac)
        self._put(_Operation.edit, card)

    def _new_disk(self, edit: NewDisk) -> None:
        controller, unit = self._free_unit(edit.controller)
        spec = self._new(
            vim.vm.device.VirtualDisk(
                key=next(self._keys),
                controllerKey=controller.key,
                unitNumber=unit,
                capacityInKB=edit.size_mib << 10,
                backing=vim.vm.device.VirtualDisk.FlatVer2BackingInfo(
                    diskMode="persistent", thinProvisioned=True, fileName=""
                ),
            )
        )
        spec.fileOperation = vim.vm.device.VirtualDeviceSpec.FileOperation.create
        if edit.policy is not None:
            spec.profile = profile_specs(edit.policy)

    def _free_unit(self, kind: str) -> tuple[Any, int]:
        """Return a controller of a kind with a free unit on it; one is added where none has."""
        is_nvme = kind == "nvme"
        family: Any = vim.vm.device.VirtualNVMEController if is_nvme else vim.vm.device.VirtualSCSIController
        controllers = [device for device in self._devices if isinstance(device, family)]
        for controller in controllers:
            taken = {device.unitNumber for device in self._devices if device.controllerKey == controller.key}
            for unit in NVME_UNITS if is_nvme else SCSI_UNITS:
                if unit not in taken:
                    return controller, unit
        buses = {controller.busNumber for controller in controllers}
        bus = next((bus for bus in range(MOST_CONTROLLERS) if bus not in buses), None)
        if bus is None:
            raise VCenterError(
                f"no {kind} controller has a free slot for another disk",
                subject=self._vm,
                remedy="use a controller of the other type for the disk",
            )
        if is_nvme:
            added: Any = vim.vm.device.VirtualNVMEController(key=next(self._keys), busNumber=bus)
        else:
            added = vim.vm.device.ParaVirtualSCSIController(
                key=next(self._keys),
                busNumber=bus,
                sharedBus=vim.vm.device.VirtualSCSIController.Sharing.noSharing,
            )
        self._new(added)
        return added, 0


def profile_specs(policy: PolicyRef) -> list[Any]:
    """Return how a request names a storage policy (vim `VirtualMachineDefinedProfileSpec`)."""
    return [vim.vm.DefinedProfileSpec(profileId=policy.id)]


def nic_backing(backing: NicBacking) -> Any:
    """Return the backing of a vNIC: distributed where there is a portgroup key, standard otherwise."""
    if backing.portgroup_key is not None:
        return _card.DistributedVirtualPortBackingInfo(
            port=vim.dvs.PortConnection(
                portgroupKey=backing.portgroup_key, switchUuid=backing.switch_uuid or ""
            )
        )
    return _card.NetworkBackingInfo(
        deviceName=backing.network_name, network=vim.Network(backing.network_moid)
    )


def _from_the_start() -> Any:
    return vim.vm.device.VirtualDevice.ConnectInfo(
        startConnected=True, allowGuestControl=True, connected=False
    )


def _set_mac(card: Any, mac: str | None) -> None:
    card.addressType = "generated" if mac is None else "manual"
    card.macAddress = mac


def _fixed_backing(edit: NewPassthrough) -> Any:
    """Name one function of one host.

    The ids go out in two forms: `deviceId` as hex digits without 0x, `vendorId` as the
    signed short that vSphere hands out (vSphere API reference; govmomi and VMware's own
    vhpc-toolkit send the same).
    """
    return _passthrough.DeviceBackingInfo(
        id=edit.pci_id,
        deviceId=format(edit.device_id & 0xFFFF, "x"),
        systemId=edit.system_id,
        vendorId=_signed_short(edit.vendor_id),
        deviceName=edit.device_name,
    )


def _dynamic_backing(edit: NewDynamicPassthrough) -> Any:
    return _passthrough.DynamicBackingInfo(
        deviceName="",
        allowedDevice=[
            _allowed(ids, edit.sub_ids[index] if index < len(edit.sub_ids) else (None, None, None))
            for index, ids in enumerate(edit.allowed)
        ],
        # An empty label is a label; unset, none is asked for.
        customLabel=edit.label or None,
    )


def _allowed(ids: tuple[int, int], narrowed: tuple[int | None, int | None, int | None]) -> Any:
    vendor, device = ids
    sub_vendor, sub_device, revision = narrowed
    allowed: Any = _passthrough.AllowedDevice(vendorId=vendor & 0xFFFF, deviceId=device & 0xFFFF)
    if sub_vendor is not None:
        allowed.subVendorId = sub_vendor
    if sub_device is not None:
        allowed.subDeviceId = sub_device
    if revision is not None:
        allowed.revisionId = _signed_short(revision)
    return allowed


def _signed_short(value: int) -> int:
    low = value & 0xFFFF
    return low - 0x10000 if low >= 0x8000 else low
