"""Ownership of a VM's disks: the plan's, known by the UUIDs in the owner mark, or others'.

A user may attach a disk to a VM of the plan at any place on its controllers. So a disk is the plan's only if
the owner mark holds its UUID, or, with a mark that holds none yet, if the clone has clearly made it. Unknown
disks never count: they are not compared, grown, moved or deleted (docs/decisions/0076).

Belief: disk-uuid-keeps-its-value, clone-disk-names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.desired import DesiredNewDisk, DesiredVm, ScratchSource
from vgpu_cfg.model.observed.vm import OwnerMark, VirtualDisk, Vm, VmDetail
from vgpu_cfg.model.wording import gib

_NUMBER = re.compile(r"(-\d{6})?\.vmdk$", re.IGNORECASE)
"""The end of a disk's file name: a delta's number goes before the suffix."""


@dataclass(frozen=True, slots=True)
class DiskKind:
    """A kind of disk, its signs, and whether one may be the plan's: the clone makes some kinds only."""

    name: str
    is_it: Callable[[VirtualDisk], bool]
    may_be_own: bool


KINDS = (
    DiskKind("first-class disk", lambda disk: bool(disk.first_class_id), may_be_own=False),
    DiskKind("raw device mapping", lambda disk: bool(disk.lun_uuid), may_be_own=False),
    DiskKind("disk shared by several VMs", lambda disk: disk.is_shared, may_be_own=False),
    # Of a linked clone, or after a snapshot: the delta has the UUID of the disk that it continues.
    DiskKind("delta disk", lambda disk: disk.has_parent, may_be_own=True),
    DiskKind("disk", lambda _disk: True, may_be_own=True),
)
"""All kinds; the first that fits counts.

A VM that is restored in its own place from a backup has new disks, which its mark does not know: they are
others'. One that is restored next to it is a copy, and not the plan's at all.
"""


@dataclass(frozen=True, slots=True)
class OwnedDisks:
    """The disks of a VM: `own` are the plan's, `others` are not, in the order of their keys.

    `is_recorded` is whether the owner mark need not be written for them: it holds the UUIDs of `own`, or the
    VM has just the disks that its clone made. `is_certain` is whether no disk among `others` may have been
    made by the plan.
    """

    own: tuple[VirtualDisk, ...] = ()
    others: tuple[VirtualDisk, ...] = ()
    is_recorded: bool = False
    is_certain: bool = True

    @property
    def keys(self) -> frozenset[int]:
        """The device keys of the plan's disks."""
        return frozenset(disk.key for disk in self.own)

    @property
    def to_record(self) -> tuple[str, ...] | None:
        """The UUIDs for the owner mark, None if it suffices, or if they are not certain."""
        return self.uuids if self.uuids and self.is_certain and not self.is_recorded else None

    @property
    def uuids(self) -> tuple[str, ...]:
        """The UUIDs of the plan's disks, none if one is unknown."""
        uuids = tuple(disk.uuid for disk in self.own)
        return uuids if all(uuids) else ()


@dataclass(frozen=True, slots=True)
class Layout:
    """The plan's sources of a VM's disks.

    `template` holds the sizes of the template's disks by their keys, in MiB, `added` those of the disks that
    the plan file adds.
    """

    template: Mapping[int, int]
    added: tuple[int, ...] = ()

    @classmethod
    def of(cls, vm: DesiredVm, template: VmDetail | None) -> Layout | None:
        """Return the layout by the plan file and the template, None if the template is missing."""
        if template is None and not isinstance(vm.source, ScratchSource):
            return None
        given = {disk.key: disk.capacity_mib for disk in template.disks} if template is not None else {}
        return cls(given, tuple(disk.size_mib for disk in vm.disks if isinstance(disk, DesiredNewDisk)))


def kind_of(disk: VirtualDisk) -> DiskKind:
    """Return a disk's kind."""
    return next(kind for kind in KINDS if kind.is_it(disk))


def disk_text(disk: VirtualDisk) -> str:
    """Describe a disk to a reader: its file, its size, and its kind unless it is a plain one."""
    kind = kind_of(disk).name
    return (
        f"{disk.file or f'disk {disk.key}'} ({gib(disk.capacity_mib)}{'' if kind == 'disk' else f', {kind}'})"
    )


def owned_disks(vm: Vm, layout: Layout | None = None) -> OwnedDisks:
    """Separate a VM's disks; `layout` counts only until the owner mark holds their UUIDs."""
    disks = sorted(vm.detail.disks if vm.detail is not None else (), key=lambda disk: disk.key)
    possible = [disk for disk in disks if kind_of(disk).may_be_own]
    mark = vm.mark or OwnerMark(plan="", vm="")
    count = Counter(disk.uuid for disk in disks)
    known = [disk for disk in possible if disk.uuid in (mark.disks or ()) and count[disk.uuid] == 1]
    own, is_certain = known, True
    is_recorded = mark.disks is not None and not mark.new_disks
    if not is_recorded:
        rest = [disk for disk in possible if disk not in known]
        if mark.new_disks:
            made = _as_requested(vm, mark, rest)
            is_certain = len(made) == len(mark.new_disks)
            is_recorded = is_certain and len(known) + len(made) == len(disks)
        else:
            made, is_certain = _clearly_made(vm, mark, rest, layout)
        own = known + made
    keys = {disk.key for disk in own}
    return OwnedDisks(
        own=tuple(disk for disk in disks if disk.key in keys),
        others=tuple(disk for disk in disks if disk.key not in keys),
        is_recorded=is_recorded,
        is_certain=is_certain,
    )


def own_datastores(vm: Vm, layout: Layout | None = None) -> tuple[str, ...]:
    """Return the datastores that a VM's own files are on, all if they cannot be separated."""
    own = [disk.datastore_moid for disk in owned_disks(vm, layout).own]
    detail = vm.detail or VmDetail()
    return tuple(dict.fromkeys(own)) if own and all(own) else detail.datastore_moids


def as_imported_disks(vm: Vm) -> OwnedDisks | None:
    """Return the disks that an import makes the plan's: all but the VM's first one, of a kind it may own.

    None if UUIDs are unknown, or if there is no such disk: the mark then holds none.
    """
    disks = sorted(vm.detail.disks if vm.detail is not None else (), key=lambda disk: disk.key)
    possible = [disk for disk in disks if kind_of(disk).may_be_own]
    own = tuple(disk for disk in possible if _folder(disk) == _folder(possible[0]))
    if not own or not all(disk.uuid for disk in own):
        return None
    return OwnedDisks(own=own, others=tuple(disk for disk in disks if disk not in own))


def exported_disks(vm: Vm) -> OwnedDisks | None:
    """Return the disks of a VM in a plan file written for it: as recorded, else as imported."""
    found = owned_disks(vm)
    return found if found.is_recorded else as_imported_disks(vm)


def is_in_folder(disk: VirtualDisk, vm: Vm, others: Iterable[VirtualDisk]) -> bool:
    """Whether a disk's file is in a VM's folder: next to its `others`, or in one that has the VM's name."""
    folder, names = _folder(disk), _names(vm, vm.mark or OwnerMark(plan="", vm=""))
    is_named = folder.rpartition("] ")[2].casefold() in names
    return is_named or folder in {_folder(one) for one in others}


def _as_requested(vm: Vm, mark: OwnerMark, disks: Sequence[VirtualDisk]) -> list[VirtualDisk]:
    """Return which of `disks` are those that the request made which wrote the mark.

    vCenter numbers the disks of a clone, all in one folder: a.vmdk, a_1.vmdk. One that is made there later
    has a higher number. A disk that has grown is still the same. If names do not decide, sizes must.
    """
    sizes = mark.new_disks
    if mark.disks is None:
        names = [
            f"{name}_{number}" if number else name
            for name in _names(vm, mark)
            for number in range(len(sizes))
        ]
        named = [disk for disk in disks if _stem(disk) in names]
        if named:
            numbers = [names.index(_stem(disk)) % len(sizes) for disk in named]
            pairs = zip(named, numbers, strict=True)
            home = _folder(named[0])
            return [disk for disk, at in pairs if disk.capacity_mib >= sizes[at] and _folder(disk) == home]
    found = [disk for disk in disks if disk.capacity_mib in sizes]
    is_just = Counter(disk.capacity_mib for disk in found) <= Counter(sizes)
    return found if is_just and len({_folder(disk) for disk in found}) == 1 else []


def _names(vm: Vm, mark: OwnerMark) -> set[str]:
    """Return the names that a VM has or had, as files are named after it."""
    return {name.casefold() for name in (mark.vm, vm.called, vm.name) if name}


def _clearly_made(
    vm: Vm, mark: OwnerMark, disks: Sequence[VirtualDisk], layout: Layout | None
) -> tuple[list[VirtualDisk], bool]:
    """Return which of `disks` the clone has made beyond doubt, and whether it has made no other.

    vCenter names a clone's first disk after the VM, and puts its other disks next to it, at the places of the
    template's. Those that the plan file adds are there, too: they count if there are just as many of just
    these sizes.
    """
    first = next((disk for disk in disks if _stem(disk) in _names(vm, mark)), None)
    if first is None:
        return [], False
    if layout is None:
        return [first], False
    given = layout.template
    beside = [disk for disk in disks if _folder(disk) == _folder(first)]
    made = [disk for disk in beside if disk.key in given and disk.capacity_mib >= given[disk.key]]
    rest = [disk for disk in beside if disk not in made]
    is_added = sorted(disk.capacity_mib for disk in rest) == sorted(layout.added)
    more = rest if is_added else [first] if first in rest else []
    return [*made, *more], is_added or not layout.added


def _folder(disk: VirtualDisk) -> str:
    return disk.file.rpartition("/")[0]


def _stem(disk: VirtualDisk) -> str:
    """Return the name of a disk's file without its suffix, and without the number of a delta."""
    return _NUMBER.sub("", disk.file.rpartition("/")[2]).casefold()


def listed_disks(disks: Iterable[VirtualDisk]) -> str:
    """Describe disks to a reader."""
    return ", ".join(map(disk_text, disks))
