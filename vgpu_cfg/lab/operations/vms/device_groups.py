"""Device groups in a ConfigSpec: added whole, never changed, gone with the last of their devices.

Faults are recalled throughout: that a group's members are immutable is documented, not what refuses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.api.versions import is_at_least, version_name
from vgpu_cfg.lab.operations.vms.device_changes import apply_device_changes
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.nvlink import FIRST_GROUP_VERSION, GroupOffer, offered_groups
from vgpu_cfg.lab.rules.whole_devices import LOW_16_BITS
from vgpu_cfg.lab.state.devices import copy_with, groups_of
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine

PATH = "configSpec.deviceGroups"


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
    """Return what the VM's host offers, or each of its cluster where the lab chose the host."""
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
