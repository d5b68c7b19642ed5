"""The deviceChange list of a ConfigSpec: devices added under the server's keys, edited and removed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.vms.disk_files import keep_file
from vgpu_cfg.lab.operations.vms.new_devices import NewDevices, make_device, nic_backing_for
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.state.devices import MOST_NICS, copy_with, description, is_passthrough, vgpus_of
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine

_VD = vim.vm.device
_HOT_PLUG_FAILED = "The hot-plug operation failed."


def apply_device_changes(
    state: LabState, vm: VirtualMachine, host: Host | None, specs: Sequence[Any]
) -> None:
    """Apply deviceChange to a VM. Raises the fault of the first spec that cannot be, by its index."""
    change = NewDevices(state, vm, host)
    used: set[int] = set()
    for index, spec in enumerate(specs):
        change.index = index
        device = spec.device
        if spec.operation == "add":
            if device.key in used and device.key <= 0:
                raise refusals.bad_device(index)
            used.add(device.key)
            change.creates_file = spec.fileOperation == "create"
            _check_hot(change, device)
            _add(change, device)
        elif spec.operation in ("edit", "remove"):
            if device.key not in vm.devices:
                raise refusals.bad_device(index)
            _check_hot(change, vm.devices[device.key])
            _edit(change, device) if spec.operation == "edit" else _remove(change, spec)
        else:
            raise refusals.bad_device(index)
    if specs:
        _check_counts(vm, len(specs) - 1)


def _remove(change: NewDevices, spec: Any) -> None:
    """Take a device away; a disk's file stays unless the client asks to destroy it."""
    gone = change.vm.devices.pop(spec.device.key)
    if isinstance(gone, _VD.VirtualDisk) and spec.fileOperation != "destroy":
        keep_file(change.state, change.vm, gone)


def _check_hot(change: NewDevices, device: Any) -> None:
    if not change.vm.is_on:
        return
    if isinstance(device, _VD.VirtualSriovEthernetCard):
        raise vim.fault.GenericVmConfigFault(reason=_HOT_PLUG_FAILED, msg=_HOT_PLUG_FAILED)
    if not isinstance(device, (_VD.VirtualEthernetCard, _VD.VirtualDisk)):
        raise refusals.wrong_power_state(change.vm, "poweredOff")


def _check_counts(vm: VirtualMachine, index: int) -> None:
    """Judge what the hardware version carries, after all changes."""
    vgpus = len(vgpus_of(vm.devices))
    passthrough = sum(is_passthrough(device) for device in vm.devices.values())
    nics = sum(
        isinstance(device, _VD.VirtualEthernetCard) and not isinstance(device, _VD.VirtualSriovEthernetCard)
        for device in vm.devices.values()
    )
    if (
        vgpus > hardware.max_vgpus(vm.hardware_version)
        or passthrough > hardware.max_passthrough(vm.hardware_version)
        or nics > MOST_NICS
    ):
        raise refusals.too_many_devices(index)


def _add(change: NewDevices, device: Any) -> None:
    _check_node(change, device)
    made = make_device(change, device)
    change.keys[device.key] = made.key
    change.vm.devices[made.key] = copy_with(made, numaNode=_node(device.numaNode))


def _check_node(change: NewDevices, device: Any) -> None:
    if device.numaNode is not None and change.vm.hardware_version < hardware.OLDEST_VNUMA_VERSION:
        raise refusals.bad_device(change.index)


def _node(sent: int | None) -> int | None:
    """Return the virtual NUMA node of a device; a negative one is none, which is recalled."""
    return sent if sent is not None and sent >= 0 else None


def _edit(change: NewDevices, device: Any) -> None:
    old: Any = change.vm.devices[device.key]
    _check_node(change, device)
    label = old.deviceInfo.label
    match old:
        case _VD.VirtualDisk():
            size_kb = device.capacityInKB or (device.capacityInBytes or 0) // 1024 or old.capacityInKB
            if size_kb < old.capacityInKB:
                raise refusals.bad_device(change.index)
            made = copy_with(
                old,
                capacityInKB=size_kb,
                capacityInBytes=size_kb * 1024,
                deviceInfo=description(label, f"{size_kb:,} KB"),
            )
        case _VD.VirtualEthernetCard():
            made = _edit_nic(change, old, device)
        case _VD.VirtualPCIPassthrough():
            _check_same(change, old, device)
            made = copy_with(old)
        case _:
            changes = {
                name: value for name, value in _set_fields(device) if name not in ("key", "controllerKey")
            }
            made = copy_with(old, **changes)
    node = old.numaNode if device.numaNode is None else _node(device.numaNode)
    change.vm.devices[device.key] = copy_with(made, numaNode=node)


def _check_same(change: NewDevices, old: Any, device: Any) -> None:
    """Raise unless an edit leaves a passthrough device what it is: only its NUMA node may change."""
    backing, info = device.backing, device.deviceGroupInfo
    is_same = backing is None or _written(backing) == _written(old.backing)
    if not is_same or (info is not None and str(info) != str(old.deviceGroupInfo)):
        raise refusals.bad_device(change.index)


def _written(backing: Any) -> tuple[object, ...]:
    """Return what a client writes of a passthrough backing, to compare."""
    names = ("vgpu", "id", "systemId", "customLabel")
    return type(backing), *(getattr(backing, name, None) or None for name in names)


def _edit_nic(change: NewDevices, old: Any, device: Any) -> Any:
    backing, name = old.backing, old.deviceInfo.summary
    if device.backing is not None:
        backing, network = nic_backing_for(change, device.backing)
        name = network.name
    return copy_with(
        old,
        backing=backing,
        deviceInfo=description(old.deviceInfo.label, name),
        macAddress=(device.macAddress or old.macAddress).lower(),
        addressType=device.addressType or old.addressType,
        connectable=device.connectable or old.connectable,
    )


def _set_fields(device: Any) -> list[tuple[str, Any]]:
    names = (info.name for info in device._GetPropertyList())
    return [(name, value) for name in names if (value := getattr(device, name)) is not None]
