"""The changes that give existing VMs their name, folder and place.

A name is unique in a folder. So a VM waits for another of the plan that leaves its name, uses the free way,
and stays unchanged if another object has its name; nothing else of it waits for that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.change import Change, MoveVmToFolder, RelocateVm, RenameVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.observed.inventory import Datastore, Folder, Host, Inventory, ResourcePool
from vgpu_cfg.model.observed.managed_object import escaped
from vgpu_cfg.model.observed.vm import VirtualDisk, Vm
from vgpu_cfg.planning.estate.devices import disk_text
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.new_vms import change_id, with_needs


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


_Place = tuple[str, str]
"""A folder's moid and a name in it, in lower case."""


@dataclass(frozen=True, slots=True)
class _Way:
    """A VM that is to leave its place: from where, to where, with which name."""

    resolved: ResolvedVm
    vm: Vm
    before: Folder
    after: Folder
    name: str

    @property
    def called(self) -> str:
        return self.vm.called or self.vm.name

    @property
    def source(self) -> _Place:
        return self.before.moid, self.called.casefold()

    @property
    def target(self) -> _Place:
        return self.after.moid, self.name.casefold()

    @property
    def ids(self) -> list[str]:
        """The ids of its changes."""
        own = [change_id("rename", self.vm.name)] if self.name != self.called else []
        return [*own, *([change_id("put into its folder", self.vm.name)] if self._moves else [])]

    @property
    def _moves(self) -> bool:
        return self.before.moid != self.after.moid

    def changes(self, holders: Mapping[_Place, str]) -> Iterator[Change]:
        """Yield the changes, the move first where the name is taken in the old folder."""
        renames: list[Change] = [rename(self.vm, self.vm.name)] if self.name != self.called else []
        moves: list[Change] = []
        if self._moves:
            moves.append(to_folder(self.vm, self.vm.name, self.before, self.after))
        is_free = holders.get((self.before.moid, self.name.casefold()), self.vm.moid) == self.vm.moid
        first, last = (renames, moves) if is_free else (moves, renames)
        yield from first
        yield from last

    def is_stuck(self, holders: Mapping[_Place, str]) -> bool:
        """Whether both ways are blocked: the name is taken here, and its present one there."""
        if not self._moves or self.name == self.called:
            return False
        between = ((self.before.moid, self.name.casefold()), (self.after.moid, self.called.casefold()))
        return all(holders.get(place, self.vm.moid) != self.vm.moid for place in between)


@dataclass(slots=True)
class NamePlanner:
    """Plans names and folders of all VMs together, since one may wait for another."""

    observed: Inventory
    findings: Findings
    _holders: dict[_Place, str] = field(init=False)
    _ways: dict[str, _Way] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._holders = {
            (vm.folder_moid or "", (vm.called or vm.name).casefold()): vm.moid for vm in self.observed.vms
        }

    def plan(self, resolved_vms: Sequence[ResolvedVm], former: Mapping[str, str]) -> dict[str, list[Change]]:
        """Return the changes by the VM's name; `former` are the names of `moved`."""
        for resolved in resolved_vms:
            if resolved.existing is not None and (way := self._way(resolved, resolved.existing)):
                self._ways[way.vm.moid] = way
        found: dict[str, list[Change]] = {}
        for way in self._ways.values():
            if reason := self._hindrance(way):
                message = (
                    f"its current name and folder ({way.called} in {_path(way.before)}) are kept, because "
                    f"{reason}"
                )
                remedy = "rename or move one of them manually, or set `ignore: [name, folder]`"
                self.findings.add_vm(Code.NAME_TAKEN, way.resolved.desired, message, remedy)
                continue
            self._report(way, former)
            found[way.vm.name] = self._in_order(way)
        return found

    def _way(self, resolved: ResolvedVm, vm: Vm) -> _Way | None:
        """Return the way that a VM has to go, None if it is at its wanted place."""
        before = self.observed.folder_by_moid.get(vm.folder_moid or "", resolved.folder)
        after = resolved.folder if resolved.desired.is_managed("folder") else before
        name = vm.called or vm.name
        if "name" not in resolved.desired.ignore:
            name = vm.name
        way = _Way(resolved, vm, before, after, name)
        return way if way.ids else None

    def _hindrance(self, way: _Way) -> str:
        """Say why a VM cannot get its place; empty where it can, be it after others."""
        if way.before.datacenter != way.after.datacenter:
            return f"{_path(way.after)} is in another datacenter"
        seen = {way.vm.moid}
        holder = self._holders.get(way.target)
        while holder is not None and holder not in seen:
            next_way = self._ways.get(holder)
            if next_way is None:
                return f"{_path(way.after)} contains another VM named {way.name}"
            seen.add(holder)
            holder = self._holders.get(next_way.target)
        if holder is not None and len(seen) > 1:
            return "it swaps names with another VM in the plan, and they cannot be renamed at the same time"
        if way.is_stuck(self._holders):
            return f"both folders contain another VM named {way.name} or {way.called}"
        return ""

    def _in_order(self, way: _Way) -> list[Change]:
        """Let each change wait for the one before, and the first for the name's present holder."""
        holder = self._holders.get(way.target, way.vm.moid)
        needs = tuple(self._ways[holder].ids) if holder != way.vm.moid else ()
        ordered: list[Change] = []
        for change in way.changes(self._holders):
            ordered.append(with_needs(change, needs))
            needs = (change.id,)
        return ordered

    def _report(self, way: _Way, former: Mapping[str, str]) -> None:
        mark = way.vm.mark
        is_by_file = mark is not None and former.get(way.called) == way.vm.name
        if way.name != way.called and not is_by_file:
            message = (
                f"its name in vCenter is {way.called}, but its owner mark is "
                f"{(mark.vm if mark else way.vm.name)}"
            )
            remedy = (
                "`apply` renames it back; to keep the name, set `ignore: [name]`, or use that name in `vms` "
                "and add an item to `moved`"
            )
            self.findings.add_vm(Code.RENAMED, way.resolved.desired, message, remedy)
        if way.before.moid != way.after.moid:
            message = f"the VM is in {_path(way.before)}, but the plan file specifies {_path(way.after)}"
            remedy = "`apply` moves it there; to keep it, change `folder`, or set `ignore: [folder]`"
            self.findings.add_vm(Code.IN_OTHER_FOLDER, way.resolved.desired, message, remedy)


def _path(folder: Folder) -> str:
    return folder.inventory_path or folder.name
