"""Device groups in a ConfigSpec: added whole, never changed, gone with the last of their devices.

Faults are recalled throughout: that a group's members are immutable is documented, not what refuses it.

The deviceChange list of a ConfigSpec: devices added under the server's keys, edited and removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.versions import is_at_least, version_name
from vgpu_cfg.lab.operations.vms.disk_files import keep_file
from vgpu_cfg.lab.operations.vms.new_devices import (
    NewDevices,
    check_disk_size,
    make_device,
    nic_backing_for,
)
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.from_the_field import refuse
from vgpu_cfg.lab.rules.nvlink import FIRST_GROUP_VERSION, GroupOffer, offered_groups
from vgpu_cfg.lab.rules.whole_devices import LOW_16_BITS
from vgpu_cfg.lab.state.devices import MOST_NICS, copy_with, description, groups_of, is_passthrough, vgpus_of
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine

PATH = "configSpec.deviceGroups"

_VD = vim.vm.device
_HOT_PLUG_FAILED = "The hot-plug operation failed."


def change_devices(
    state: LabState, vm: VirtualMachine, host: Host | None, specs: Sequence[Any], groups: Any = None
) -> None:
    """Apply deviceChange together with the deviceGroups of the same spec.

    Raises InvalidVmConfig for a group that cannot be, InvalidDeviceSpec for a device that joins none or
    one that is there already.
    """
    new = _new_groups(state, vm, groups)
    before = {key: len(members) for key, members in groups_of(vm.devices).items()}
    apply_device_changes(state, vm, host, [_joined(spec, at, new) for at, spec in enumerate(specs)])
    members = groups_of(vm.devices)
    for key, count in before.items():
        if len(members.get(key, ())) not in (0, count):
            raise refusals.bad_config(PATH)
    offers = _offers(state, vm, host) if new else []
    for key, name in new.values():
        _check_members(vm, members.get(key, []), [offer[name] for offer in offers if name in offer])
    vm.device_groups |= dict(new.values())
    vm.device_groups = {key: name for key, name in vm.device_groups.items() if key in members}


def _new_groups(state: LabState, vm: VirtualMachine, groups: Any) -> dict[int, tuple[int, str]]:
    """Return the client's key → the server's key and the name of each group that a spec adds.

    A negative key is the client's own, another one is kept. A group that is there already may be restated.
    """
    wanted = list(groups.deviceGroup or ()) if groups is not None else []
    if not wanted:
        return {}
    if not is_at_least(version_name(state.api_version) or "", FIRST_GROUP_VERSION):
        raise vmodl.fault.NotSupported(msg="The operation is not supported on the object.")
    if vm.hardware_version < hardware.OLDEST_DEVICE_GROUP_VERSION:
        raise refusals.bad_config(PATH)
    taken = {*vm.device_groups, *(group.groupInstanceKey for group in wanted)}
    new: dict[int, tuple[int, str]] = {}
    for group in wanted:
        sent, name = group.groupInstanceKey, getattr(group, "deviceGroupName", None)
        if vm.device_groups.get(sent, name) != name or not name or sent in new:
            raise refusals.bad_config(PATH)
        if sent in vm.device_groups:
            continue
        key = sent if sent >= 0 else next(n for n in range(1, len(taken) + 2) if n not in taken)
        taken.add(key)
        new[sent] = key, name
    return new


def _joined(spec: Any, index: int, new: dict[int, tuple[int, str]]) -> Any:
    """Return a device's spec with the server's key of its group."""
    info = spec.device.deviceGroupInfo if spec.operation == "add" else None
    if info is None:
        return spec
    if info.groupInstanceKey not in new:
        raise refusals.bad_device(index)
    key, _ = new[info.groupInstanceKey]
    device = copy_with(spec.device, deviceGroupInfo=copy_with(info, groupInstanceKey=key))
    return copy_with(spec, device=device)


def _offers(state: LabState, vm: VirtualMachine, host: Host | None) -> list[dict[str, GroupOffer]]:
    """Return the offers of the VM's host, or of each of its cluster if the lab chose the host."""
    if host is None:
        return []
    hosts = [host]
    if vm.host_is_chosen:
        hosts = [state.get(moid, Host) for moid in state.cluster_of(host).hosts]
    return [offered_groups(each) for each in hosts]


def _check_members(vm: VirtualMachine, keys: list[int], offers: list[GroupOffer]) -> None:
    """Raise unless the devices of a group are those that some host offers under its name."""
    found = {vm.devices[key].deviceGroupInfo.sequenceId: _kind_of(vm.devices[key]) for key in keys}
    for offer in offers:
        members = [*([offer.profile] * offer.size), *offer.nics]
        if len(keys) == len(members) and found == dict(enumerate(members)):
            return
    raise refusals.bad_config(PATH)


def _kind_of(device: Any) -> str | tuple[int, int] | None:
    """Return the profile of a vGPU, or the ids of a dynamic device that may be of one kind alone."""
    backing = device.backing
    for allowed in getattr(backing, "allowedDevice", None) or ():
        return (allowed.vendorId & LOW_16_BITS, allowed.deviceId & LOW_16_BITS)
    return getattr(backing, "vgpu", None)


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
    """Check the devices against the hardware version, after all changes."""
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
            if size_kb > old.capacityInKB:
                _check_grows(change, old)
                check_disk_size(change, size_kb)
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


def _check_grows(change: NewDevices, disk: Any) -> None:
    """Raise InvalidDeviceOperation for the disk of a VM with a snapshot, or one with a disk below it."""
    if change.vm.current_snapshot is not None or getattr(disk.backing, "parent", None) is not None:
        where = {"property": f"virtualDeviceSpec[{change.index}]", "badOp": "edit"}
        raise refuse("disk-with-parents", deviceIndex=change.index, **where)


def _check_same(change: NewDevices, old: Any, device: Any) -> None:
    """Raise unless an edit leaves a passthrough device the same: only its NUMA node may change."""
    backing, info = device.backing, device.deviceGroupInfo
    is_same = backing is None or _written(backing) == _written(old.backing)
    if not is_same or (info is not None and str(info) != str(old.deviceGroupInfo)):
        raise refusals.bad_device(change.index)


def _written(backing: Any) -> tuple[object, ...]:
    """Return the client's fields of a passthrough backing, to compare."""
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
