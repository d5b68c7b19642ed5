"""Virtual disks of no VM: made on a datastore, extended, copied, moved and deleted by their names.

Of such a disk the lab keeps its descriptor, a text with its size in sectors. Faults are those that vim
declares for the methods; that InvalidArgument refuses a name that is no disk's, and a smaller disk, is
assumed.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.files import (
    already_there,
    copy_file,
    delete_file,
    listed,
    may_change,
    move_file,
    not_found,
    put,
)
from vgpu_cfg.lab.operations.vms.disk_files import descriptor, sectors, uuid_in
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import disk_uuid
from vgpu_cfg.lab.state.inventory import Datastore, Managed

_OF = "virtualDiskManager"


@task("VirtualDiskManager", "CreateVirtualDisk_Task", description_id=f"{_OF}.createVirtualDisk", seconds=1.0)
def create_disk(lab: Simulation, root: Managed, *, name: str, spec: Any, datacenter: Any = None) -> str:
    """Make a disk in a folder that is there. Raises FileAlreadyExists, FileNotFound, NoDiskSpace."""
    del root, datacenter
    store, path = may_change(lab, name)
    there, above = listed(lab.state, store), path.rpartition("/")[0]
    if not path.endswith(".vmdk"):
        raise refusals.bad_argument("name")
    if path in there:
        raise already_there(name)
    if above and f"{above}/" not in there:
        raise not_found(f"[{store.name}] {above}")
    _write(lab, store, path, getattr(spec, "capacityKb", None) or 0)
    return name


@task("VirtualDiskManager", "ExtendVirtualDisk_Task", description_id=f"{_OF}.extendVirtualDisk", seconds=1.0)
def extend_disk(
    lab: Simulation,
    root: Managed,
    *,
    name: str,
    newCapacityKb: int,
    datacenter: Any = None,
    eagerZero: bool | None = None,
) -> None:
    """Make a disk larger. Raises FileNotFound, InvalidArgument, NoDiskSpace."""
    del root, datacenter, eagerZero
    store, path = may_change(lab, name)
    size = sectors(store.files.get(path, ""))
    if size is None:
        raise not_found(name)
    if newCapacityKb * 2 < size:
        raise refusals.bad_argument("newCapacityKb")
    _write(lab, store, path, newCapacityKb)


@task("VirtualDiskManager", "DeleteVirtualDisk_Task", description_id=f"{_OF}.deleteVirtualDisk", seconds=1.0)
def delete_disk(lab: Simulation, root: Managed, **arguments: Any) -> None:
    """Delete a disk, as a file is deleted."""
    delete_file(lab, root, **arguments)


@task("VirtualDiskManager", "MoveVirtualDisk_Task", description_id=f"{_OF}.moveVirtualDisk", seconds=1.0)
def move_disk(lab: Simulation, root: Managed, **arguments: Any) -> None:
    """Move a disk, as a file is moved."""
    move_file(lab, root, **_as_file(arguments))


@task("VirtualDiskManager", "CopyVirtualDisk_Task", description_id=f"{_OF}.copyVirtualDisk", seconds=1.0)
def copy_disk(lab: Simulation, root: Managed, **arguments: Any) -> None:
    """Copy a disk, as a file is copied; it stays of its kind."""
    copy_file(lab, root, **_as_file(arguments))


def _as_file(arguments: dict[str, Any]) -> dict[str, Any]:
    into, force = arguments["destName"], arguments.get("force")
    return {"sourceName": arguments["sourceName"], "destinationName": into, "force": force}


def _write(lab: Simulation, store: Datastore, path: str, kb: int) -> None:
    if kb // 1024 > store.free_mib:
        raise vim.fault.NoDiskSpace(
            datastore=store.name, msg=f"Insufficient disk space on datastore '{store.name}'."
        )
    uuid = uuid_in(store.files.get(path, "")) or disk_uuid(store.moid, path, str(lab.state.revision))
    put(lab, store, path, descriptor(path, kb, uuid))
