"""The changes that give a VM its name, its folder and its place, as displayed and as sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpu_cfg.changes.change import Change, MoveVmToFolder, RelocateVm, RenameVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.observed.inventory import Datastore, Folder, Host, Inventory, ResourcePool
from vgpu_cfg.model.observed.managed_object import escaped
from vgpu_cfg.model.observed.vm import VirtualDisk, Vm
from vgpu_cfg.planning.estate.devices import disk_text
from vgpu_cfg.planning.vms.new_vms import change_id


def rename(vm: Vm, name: str) -> RenameVm:
    """Return the change that gives a VM a name."""
    return RenameVm(
        id=change_id("rename", name),
        subject=Subject(kind="vm", name=name, moid=vm.moid),
        edits=(Edit(key="name", before=vm.called or vm.name, after=name, sets={"newName": escaped(name)}),),
        vm=VmRef(name=name, moid=vm.moid),
    )


def to_folder(vm: Vm, name: str, before: Folder, after: Folder) -> MoveVmToFolder:
    """Return the change that moves a VM from one folder to another."""
    paths = (one.inventory_path or one.name for one in (before, after))
    edit = Edit(key="folder", before=next(paths), after=next(paths))
    return MoveVmToFolder(
        id=change_id("put into its folder", name),
        subject=Subject(kind="vm", name=name, moid=vm.moid),
        edits=(edit,),
        vm=VmRef(name=name, moid=vm.moid),
        folder_moid=after.moid,
        source_moid=before.moid,
    )


def relocation(  # noqa: PLR0913 - from where and to where, and how
    vm: Vm,
    name: str,
    source: Host,
    target: Host,
    *,
    pool: tuple[str, ResourcePool] | None = None,
    datastore: tuple[str, Datastore] | None = None,
    kept: Sequence[VirtualDisk] = (),
    is_running: bool,
    stun_ms: int | None = None,
) -> RelocateVm:
    """Return the change that moves a VM; of a pool and a datastore the name before and the new one.

    It burdens the target host. `kept` are the VM's disks that stay on their datastores.
    """
    stay = {disk.key: disk.datastore_moid for disk in kept} if datastore is not None else {}
    return RelocateVm(
        id=change_id("move", name),
        subject=Subject(kind="vm", name=name, moid=vm.moid),
        edits=(
            *_edits(source, target, pool, datastore),
            *(_kept(disk, stay[disk.key]) for disk in kept if disk.key in stay),
        ),
        impact=Impact.VMOTION if is_running else Impact.NONE,
        host_moid=target.moid,
        vm=VmRef(name=name, moid=vm.moid),
        destination=Destination(
            host_moid=target.moid,
            host_name=target.name,
            resource_pool_moid=None if pool is None else pool[1].moid,
            datastore_moid=None if datastore is None else datastore[1].moid,
            kept_disks=stay,
        ),
        is_running=is_running,
        stun_ms=stun_ms if is_running else None,
    )


def within_windows(
    changes: Sequence[Change], windows: Mapping[str, tuple[str, int]], observed: Inventory
) -> list[Change]:
    """Bind moves and power cycles to the windows of the hosts that VMs are on, leave and come to.

    `windows` are by host moid, each with the seconds that a VM there is thought to take.
    """
    hosts = {vm.moid: vm.host_moid for vm in observed.vms}
    started = {vm.moid for change in changes if (vm := change.starts) is not None}
    bound: list[Change] = []
    for change in changes:
        ends: tuple[str, ...] = ()
        if change.moves is not None:
            ends = (hosts.get(change.moves.moid or "") or "", change.host_moid or "")
        elif change.stops is not None and change.stops.moid in started:
            ends = (change.host_moid or "",)
        own = [windows[moid] for moid in ends if moid in windows]
        texts = tuple(dict.fromkeys(text for text, _ in own))
        update = {"windows": texts, "takes_seconds": max((seconds for _, seconds in own), default=0)}
        bound.append(change.model_copy(update=update) if own else change)
    return bound


def _kept(disk: VirtualDisk, store: str) -> Edit:
    sets = {f"disk[{disk.key}].diskId": str(disk.key), f"disk[{disk.key}].datastore": store}
    return Edit(key="disk", after=disk_text(disk), note="unmanaged; not moved", sets=sets)


def _edits(
    source: Host, target: Host, pool: tuple[str, ResourcePool] | None, datastore: tuple[str, Datastore] | None
) -> Iterator[Edit]:
    """Yield the sent values: the host always, which goes with the datastore if only that changes."""
    stays = {"host": target.moid} if source.moid == target.moid else {}
    if not stays:
        yield Edit(key="host", before=source.name, after=target.name, sets={"host": target.moid})
    if pool is not None:
        yield Edit(key="resource pool", before=pool[0], after=pool[1].name, sets={"pool": pool[1].moid})
    if datastore is not None:
        sets = {"datastore": datastore[1].moid} | stays
        yield Edit(key="datastore", before=datastore[0], after=datastore[1].name, sets=sets)
