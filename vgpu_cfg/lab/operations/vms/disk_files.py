"""The files of VMs' disks: made with a disk, kept when it is detached, deleted with its VM.

A detached disk is a descriptor on its datastore, with its size and UUID (`ddb.uuid`). A disk file that is
attached and that the lab knows nothing of counts as there: a first-class disk, or what another tool made.
Assumed: Destroy_Task deletes the disks that snapshots refer to, too, and keeps a file that another VM has
(vSphere Virtual Machine Administration: "If two virtual machines are sharing the same disk, the disk files
are not deleted").
"""

from __future__ import annotations

import re
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.state.devices import copy_with, disk_uuid, disks_of
from vgpu_cfg.lab.state.inventory import Datastore, LabState, Snapshot, VirtualMachine

FIRST_CLASS_FOLDER = "fcd"
"""The folder of a datastore that vCenter keeps first-class disks in."""

_SECTORS = re.compile(r"^RW (\d+) VMFS", re.MULTILINE)
_UUID = re.compile(r'^ddb\.uuid = "([0-9A-Fa-f-]+)"', re.MULTILINE)
MULTI_WRITER = "sharingMultiWriter"
_LOCKED = "Failed to lock the file"


def descriptor(path: str, kb: int, uuid: str) -> str:
    """Return the text of a disk's descriptor."""
    flat = path.rpartition("/")[2].replace(".vmdk", "-flat.vmdk")
    return f'# Disk DescriptorFile\nversion=1\nRW {kb * 2} VMFS "{flat}"\nddb.uuid = "{uuid}"\n'


def sectors(text: str) -> int | None:
    """Return the size that a descriptor states, None for a text that is none."""
    found = _SECTORS.search(text)
    return None if found is None else int(found[1])


def uuid_in(text: str) -> str:
    """Return the UUID that a descriptor states, "" for a text without one."""
    found = _UUID.search(text)
    return "" if found is None else found[1]


def with_new_file(state: LabState, vm: VirtualMachine, backing: Any) -> Any:
    """Return the backing of a disk that is made: in the VM's folder where no path is given."""
    store = _store_of(state, vm, backing)
    path = (backing.fileName or "").partition("]")[2].strip()
    taken = {*store.files, *(_path(disk) for disk in disks_of(vm.devices))}
    names = (f"{vm.home or vm.name}/{vm.name}{f'_{n}' if n else ''}.vmdk" for n in range(len(taken) + 1))
    path = path or next(name for name in names if name not in taken)
    return _named(backing, store, path, disk_uuid(vm.moid, path, str(state.revision)))


def with_file_there(state: LabState, vm: VirtualMachine, device: Any) -> Any:
    """Return a disk with the file that it names: of its size, its UUID, its id if it is first-class.

    Raises where another VM that runs has it, and this one runs, too, unless both are multi-writers.
    """
    store = _store_of(state, vm, device.backing)
    path = _path(device)
    holders = _others_with(state, vm, store, path)
    sharing = {getattr(disk.backing, "sharing", None) for disk in (device, *(one for _, one in holders))}
    if vm.is_on and any(other.is_on for other, _ in holders) and sharing != {MULTI_WRITER}:
        raise vim.fault.GenericVmConfigFault(reason=_LOCKED, msg=_LOCKED)
    text = store.files.pop(path, "")
    state.touch(store)
    other = holders[0][1] if holders else None
    uuid = other.backing.uuid if other else uuid_in(text) or disk_uuid(store.moid, path)
    kb = (other.capacityInKB if other else (sectors(text) or 0) // 2) or device.capacityInKB or 0
    id_ = device.vDiskId or (other.vDiskId if other else None)
    if id_ is None and path.startswith(f"{FIRST_CLASS_FOLDER}/"):
        id_ = vim.vslm.ID(id=disk_uuid("first-class", store.moid, path).lower())
    backing = _named(device.backing, store, path, uuid)
    return copy_with(device, backing=backing, vDiskId=id_, capacityInKB=kb, capacityInBytes=kb * 1024)


def keep_file(state: LabState, vm: VirtualMachine, disk: Any) -> None:
    """Keep the file of a disk that a VM gives up, unless another VM has it still."""
    store, path = _store_of(state, vm, disk.backing), _path(disk)
    if path and not _others_with(state, vm, store, path):
        store.files[path] = descriptor(path, disk.capacityInKB, disk.backing.uuid or "")
        state.touch(store)


def delete_files_of_snapshots(state: LabState, vm: VirtualMachine) -> None:
    """Delete the disks that a VM's snapshots refer to; those that it has itself go with it."""
    for moid in vm.snapshots:
        for disk in disks_of(state.get(moid, Snapshot).kept["made_devices"]):
            store = _store_of(state, vm, disk.backing)
            if store.files.pop(_path(disk), None) is not None:
                state.touch(store)


def _named(backing: Any, store: Datastore, path: str, uuid: str) -> Any:
    name = f"[{store.name}] {path}"
    return copy_with(backing, fileName=name, datastore=vim.Datastore(store.moid), uuid=uuid)


def _store_of(state: LabState, vm: VirtualMachine, backing: Any) -> Datastore:
    name = (getattr(backing, "fileName", None) or "").partition("[")[2].partition("]")[0]
    found = next((one for one in state.all(Datastore) if one.name == name), None) if name else None
    return found or state.get(vm.datastore, Datastore)


def _path(disk: Any) -> str:
    return str(getattr(disk.backing, "fileName", None) or "").partition("]")[2].strip()


def _others_with(
    state: LabState, vm: VirtualMachine, store: Datastore, path: str
) -> list[tuple[VirtualMachine, Any]]:
    """Return the other VMs that have the disk of a path, each with its device."""
    return [
        (other, disk)
        for other in state.all(VirtualMachine)
        if other.moid != vm.moid
        for disk in disks_of(other.devices)
        if _path(disk) == path and _store_of(state, other, disk.backing) is store
    ]
