"""The deviceChange list of a ConfigSpec: devices and groups added as the server makes them, edited, removed.

Faults are recalled throughout: that a group's members are immutable is documented, not what refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.versions import is_at_least, version_name
from vgpu_cfg.lab.operations.vms.disk_files import keep_file, with_file_there, with_new_file
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.admission import LOW_16_BITS
from vgpu_cfg.lab.rules.gpu_load import knows
from vgpu_cfg.lab.rules.nvlink import FIRST_GROUP_VERSION, GroupOffer, offered_groups
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation.operations import moid_of
from vgpu_cfg.lab.state.devices import (
    FIRST_DISK,
    FIRST_NIC,
    FIRST_PASSTHROUGH,
    FIRST_PASSTHROUGH_UNIT,
    LAST_NIC,
    LAST_SRIOV,
    MOST_NICS,
    PCI_CONTROLLER,
    SCSI_CONTROLLER,
    backing_summary,
    copy_with,
    description,
    disk_unit,
    groups_of,
    has_tpm,
    is_passthrough,
    mac_of,
    shown_backing,
    tpm_device,
    vgpus_of,
)
from vgpu_cfg.lab.state.inventory import Datastore, Host, LabState, Network, VirtualMachine

_VD = vim.vm.device

_CONTROLLERS = (
    (_VD.VirtualSCSIController, 1000, "SCSI controller"),
    (_VD.VirtualNVMEController, 31000, "NVME controller"),
    (_VD.VirtualAHCIController, 15000, "SATA controller"),
)


@dataclass(slots=True)
class NewDevices:
    """One reconfiguration's devices on their way; `keys` maps the client's negative keys to the server's."""

    state: LabState
    vm: VirtualMachine
    host: Host | None
    index: int = 0
    creates_file: bool = False
    keys: dict[int, int] = field(default_factory=dict)


def make_device(change: NewDevices, device: Any) -> Any:
    """Return the device that an "add" gives. Raises the fault of the spec at `change.index`."""
    match device:
        case _VD.VirtualPCIPassthrough():
            return _make_passthrough(change, device)
        case _VD.VirtualSriovEthernetCard():
            return _make_sriov(change, device)
        case _VD.VirtualVmxnet3Vrdma():
            return _make_pvrdma(change, device)
        case _VD.VirtualEthernetCard():
            return _make_nic(change, device)
        case _VD.VirtualDisk():
            return _make_disk(change, device)
        case _VD.VirtualTPM():
            return _make_tpm(change)
        case _VD.VirtualController():
            return _make_controller(change, device)
        case _:
            return _make_other(change, device)


def _make_passthrough(change: NewDevices, device: Any) -> Any:
    passthrough = _VD.VirtualPCIPassthrough
    backing = device.backing
    match backing:
        case passthrough.VmiopBackingInfo():
            if not _is_known(change, backing.vgpu or ""):
                raise refusals.bad_backing(change.index)
        case passthrough.DynamicBackingInfo():
            if change.vm.hardware_version < hardware.OLDEST_DYNAMIC_VERSION or not backing.allowedDevice:
                raise refusals.bad_backing(change.index)
        case passthrough.DeviceBackingInfo():
            if not backing.id:
                raise refusals.bad_backing(change.index)
        case _:
            raise refusals.bad_backing(change.index)
    key = _free_key(change.vm, FIRST_PASSTHROUGH)
    return copy_with(
        device,
        key=key,
        deviceInfo=description(f"PCI device {key - FIRST_PASSTHROUGH}", backing_summary(backing)),
        backing=shown_backing(backing),
        controllerKey=PCI_CONTROLLER,
        unitNumber=FIRST_PASSTHROUGH_UNIT + key - FIRST_PASSTHROUGH,
    )


def _make_tpm(change: NewDevices) -> Any:
    """Make a virtual TPM: one a VM, from hardware version 14 on, if vCenter has a default key provider.

    After VMware's security guide ("virtual Trusted Platform Module") and that of Cloud Director 10.4, which
    name EFI, version 14 and a key provider. EFI is asked for at a power-on only: see `hardware.check_tpm`.
    """
    if change.vm.hardware_version < hardware.OLDEST_TPM_VERSION:
        raise refusals.bad_device(change.index)
    if has_tpm(change.vm.devices):
        raise refusals.too_many_devices(change.index)
    if change.state.default_key_provider is None:
        raise refusals.no_key_provider()
    return tpm_device()


def _is_known(change: NewDevices, profile: str) -> bool:
    """Whether the VM's host has heard of a profile, or any of its cluster where the lab chose the host."""
    hosts = [change.host] if change.host is not None else []
    if change.host is not None and change.vm.host_is_chosen:
        moids = change.state.cluster_of(change.host).hosts
        hosts = [change.state.get(moid, Host) for moid in moids]
    return not hosts or any(knows(host, profile) for host in hosts)


def _make_nic(change: NewDevices, device: Any) -> Any:
    key = _free_key(change.vm, FIRST_NIC)
    if change.state.denies("nic-keys-are-lowest-free"):
        key = max([FIRST_NIC + 49, *(one for one in change.vm.devices if one < LAST_NIC)]) + 1
    return _finish_nic(change, device, key, key - FIRST_NIC)


def _make_pvrdma(change: NewDevices, device: Any) -> Any:
    """Make a PVRDMA NIC: on a distributed portgroup, of hardware 13 and later, of a known protocol.

    The word of the protocol is the server's where the client leaves it out; that it takes version 2 then
    is assumed.
    """
    is_distributed = isinstance(device.backing, _VD.VirtualEthernetCard.DistributedVirtualPortBackingInfo)
    if not is_distributed or change.vm.hardware_version < hardware.OLDEST_PVRDMA_VERSION:
        raise refusals.bad_backing(change.index)
    protocol = device.deviceProtocol or hardware.PVRDMA_PROTOCOLS[-1]
    if protocol not in hardware.PVRDMA_PROTOCOLS:
        raise refusals.bad_device(change.index)
    return copy_with(_make_nic(change, device), deviceProtocol=protocol)


def _make_sriov(change: NewDevices, device: Any) -> Any:
    key = LAST_SRIOV
    while key in change.vm.devices:
        key -= 1
    return _finish_nic(change, device, key, LAST_SRIOV - key + MOST_NICS)


def _finish_nic(change: NewDevices, device: Any, key: int, nth: int) -> Any:
    backing, network = nic_backing_for(change, device.backing)
    mac, kind = device.macAddress, device.addressType
    if not mac:
        mac, kind = mac_of(int(change.vm.moid.rsplit("-", 1)[-1]), nth, change.state), "assigned"
    return copy_with(
        device,
        key=key,
        deviceInfo=description(f"Network adapter {nth + 1}", network.name),
        backing=backing,
        connectable=device.connectable or _connected(),
        controllerKey=PCI_CONTROLLER,
        unitNumber=(65 - (LAST_SRIOV - key)) if isinstance(device, _VD.VirtualSriovEthernetCard) else 7 + nth,
        macAddress=mac.lower(),
        addressType=kind or "manual",
    )


def nic_backing_for(change: NewDevices, backing: Any) -> tuple[Any, Network]:
    """Return the backing completed with the server's values, and its network."""
    card = _VD.VirtualEthernetCard
    moid = ""
    if isinstance(backing, card.DistributedVirtualPortBackingInfo):
        moid = backing.port.portgroupKey or ""
    elif isinstance(backing, card.NetworkBackingInfo):
        moid = (
            moid_of(backing.network)
            if backing.network is not None
            else _network_named(change, backing.deviceName)
        )
    network = change.state.find(moid, Network)
    reachable = network is not None and (change.host is None or moid in change.host.networks)
    right_kind = network is not None and network.is_distributed == isinstance(
        backing, card.DistributedVirtualPortBackingInfo
    )
    if network is not None and network.is_distributed and right_kind and not reachable:
        raise refuse("switch-of-other-hosts", invalidProperty="spec.deviceChange.device.port.switchUuid")
    if network is None or network.is_uplink or not reachable or not right_kind:
        raise refusals.bad_backing(change.index)
    if network.is_distributed:
        return backing, network
    return copy_with(backing, deviceName=network.name, network=vim.Network(network.moid)), network


def _network_named(change: NewDevices, name: str) -> str:
    moids = change.host.networks if change.host is not None else ()
    return next((moid for moid in moids if change.state.objects[moid].name == name), "")


def _make_disk(change: NewDevices, device: Any) -> Any:
    controller = change.keys.get(device.controllerKey, device.controllerKey)
    if controller is None or not isinstance(change.vm.devices.get(controller), _VD.VirtualController):
        raise vim.fault.MissingController(
            property=f"virtualDeviceSpec[{change.index}]",
            deviceIndex=change.index,
            msg=f"Invalid configuration for device '{change.index}'.",
        )
    path = (getattr(device.backing, "fileName", None) or "").strip()
    is_there = not change.creates_file and bool(path) and not path.endswith("]")
    if is_there:
        device = with_file_there(change.state, change.vm, device)
    size_kb = device.capacityInKB or (device.capacityInBytes or 0) // 1024
    if size_kb <= 0:
        raise refusals.bad_device(change.index)
    check_disk_size(change, size_kb)
    store = change.state.get(change.vm.datastore, Datastore)
    if not is_there and store.in_maintenance:
        raise refuse("datastore-in-maintenance", datastoreName=store.name)
    if not is_there and size_kb // 1024 > store.free_mib:
        raise vim.fault.NoDiskSpace(
            datastore=store.name, msg=f"Insufficient disk space on datastore '{store.name}'."
        )
    taken = {other.unitNumber for other in change.vm.devices.values() if other.controllerKey == controller}
    unit = device.unitNumber
    if unit is None or unit < 0:
        unit = next(disk_unit(n) for n in range(256) if disk_unit(n) not in taken)
    elif unit in taken:
        raise refusals.bad_device(change.index)
    key = _disk_key(controller, unit)
    number = 1 + sum(isinstance(other, _VD.VirtualDisk) for other in change.vm.devices.values())
    flat: Any = _VD.VirtualDisk.FlatVer2BackingInfo
    backing = device.backing or flat(diskMode="persistent", thinProvisioned=True, fileName="")
    return copy_with(
        device,
        key=key,
        deviceInfo=description(f"Hard disk {number}", f"{size_kb:,} KB"),
        backing=backing if is_there else with_new_file(change.state, change.vm, backing),
        controllerKey=controller,
        unitNumber=unit,
        capacityInKB=size_kb,
        capacityInBytes=size_kb * 1024,
    )


def check_disk_size(change: NewDevices, size_kb: int) -> None:
    """Raise InvalidDeviceSpec for a disk larger than any datastore takes."""
    if size_kb > hardware.LARGEST_DISK_KB:
        raise refuse(
            "disk-above-62-tib", deviceIndex=change.index, property=f"virtualDeviceSpec[{change.index}]"
        )


def _disk_key(controller: int, unit: int) -> int:
    if controller >= 31000:
        return 32000 + (controller - 31000) * 64 + unit
    if controller >= 15000:
        return 16000 + (controller - 15000) * 30 + unit
    return FIRST_DISK + (controller - SCSI_CONTROLLER) * 16 + unit


def _make_controller(change: NewDevices, device: Any) -> Any:
    for kind, first, label in _CONTROLLERS:
        if isinstance(device, kind):
            bus = device.busNumber or 0
            if first + bus in change.vm.devices:
                bus = next(n for n in range(16) if first + n not in change.vm.devices)
            made = copy_with(
                device,
                key=first + bus,
                busNumber=bus,
                controllerKey=PCI_CONTROLLER,
                deviceInfo=description(f"{label} {bus}", f"{label} {bus}"),
            )
            if isinstance(device, _VD.VirtualSCSIController):
                shared = device.sharedBus or "noSharing"
                return copy_with(made, scsiCtlrUnitNumber=7, hotAddRemove=True, sharedBus=shared)
            return made
    return _make_other(change, device)


def _make_other(change: NewDevices, device: Any) -> Any:
    controller = change.keys.get(device.controllerKey, device.controllerKey)
    key = (
        device.key if device.key > 0 and device.key not in change.vm.devices else _free_key(change.vm, 20000)
    )
    info = device.deviceInfo or description(type(device).__name__.rsplit(".", 1)[-1], "")
    return copy_with(device, key=key, controllerKey=controller, deviceInfo=info)


def _free_key(vm: VirtualMachine, first: int) -> int:
    key = first
    while key in vm.devices:
        key += 1
    return key


def _connected() -> Any:
    return _VD.VirtualDevice.ConnectInfo(
        startConnected=True, allowGuestControl=True, connected=True, status="ok"
    )


PATH = "configSpec.deviceGroups"

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
        raise refusals.not_supported()
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
