"""Ownership of a VM's NICs, GPUs, functions and disks: the plan's, by its owner mark, or others'.

Virtual NICs are known by their MACs: vSphere reuses the key of a removed NIC for the next one. A new NIC has
no MAC before it exists, so the request that makes it writes how many there are; those of a clone have the
lowest keys. vGPUs and functions have nothing but their kind: equal ones count as often as the mark names
them. Unmarked devices are others', and stay unchanged, until the plan file asks for them as well
(docs/decisions/0079).

A user may attach a disk to a VM of the plan at any place on its controllers. So a disk is the plan's only if
the owner mark holds its UUID, or, with a mark that holds none yet, if the clone has clearly made it. Unknown
disks never count: they are not compared, grown, moved or deleted (docs/decisions/0076).

Belief: nic-keys-are-lowest-free, nic-keeps-automatic-mac, only-an-edit-changes-a-mac,
disk-uuid-keeps-its-value, clone-disk-names.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from vgpu_cfg.changes.kinds.vm_spec import DeviceEdit
from vgpu_cfg.model.desired import DesiredNewDisk, DesiredVm, ScratchSource
from vgpu_cfg.model.observed.vm import (
    OwnerMark,
    PassthroughDevice,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    Vm,
    VmDetail,
)
from vgpu_cfg.model.wording import gib

PciDevice = VgpuDevice | PassthroughDevice
Device = PciDevice | VirtualNic
FIRST_PCI_KEY = 13000
"""The first device key of vGPUs and functions: `pciPassthru<n>` is 13000 + n, as seen on vSphere 8.0.3."""
_T = TypeVar("_T", VirtualNic, PciDevice)


@dataclass(frozen=True, slots=True)
class Wanting:
    """A plan file's requests for one kind of devices, by number.

    `is_it` is whether a device matches a number's request, `is_like` whether it does except for its MAC.
    """

    count: int = 0
    is_it: Callable[[int, Device], bool] = lambda _number, _device: False
    is_like: Callable[[int, Device], bool] = lambda _number, _device: False


@dataclass(frozen=True, slots=True)
class OwnedDevices:
    """The devices of a VM: `nics` and `pci` are the plan's, `others` are not.

    `has_nics` and `has_pci` are whether the plan file states the kind, so that the mark must name it. Device
    groups' NICs and those by DVX belong to no kind: no key of a plan file asks for one.
    """

    mark: OwnerMark
    nics: tuple[VirtualNic, ...] = ()
    pci: tuple[PciDevice, ...] = ()
    others: tuple[Device, ...] = ()
    has_nics: bool = False
    has_pci: bool = False

    @property
    def other_keys(self) -> frozenset[int]:
        """The device keys of devices outside the plan."""
        return frozenset(device.key for device in self.others)

    def record(self, devices: Sequence[DeviceEdit] = ()) -> dict[str, Any]:
        """Return the owner mark's wanted text after a request, nothing if unchanged."""
        held, mark = held_after(self.nics, self.pci, devices), self.mark
        others = tuple(one.mac.casefold() for one in self.others if isinstance(one, VirtualNic))
        is_touched = _is_of_nics(devices, self.nics)
        is_known = Counter(held["nics"]) <= Counter(mark.nics or ())
        is_counted = mark.new_nics > 0 and not set(others) - set(mark.other_nics)
        told: dict[str, Any] = {}
        if self.has_nics and (is_touched or not (is_known or is_counted)):
            told = {"nics": held["nics"], "new_nics": held["new_nics"]}
            told["other_nics"] = others if held["new_nics"] else ()
        is_new = len(held["pci"]) > len(mark.pci or ())
        if self.has_pci and (is_new or _is_of_pci(devices, self.pci)):
            told["pci"] = held["pci"]
        return told if any(value != getattr(mark, key) for key, value in told.items()) else {}


def held_after(
    nics: Iterable[VirtualNic], pci: Iterable[PciDevice], devices: Sequence[DeviceEdit]
) -> dict[str, Any]:
    """Return how an owner mark names these devices once a request has added and removed some."""
    gone = {one.removes for one in devices}
    edited = {key: mac for one in devices for key, mac in one.macs.items()}
    macs = [edited.get(nic.key, nic.mac) for nic in nics if nic.key not in gone]
    added = [one.new_mac for one in devices if one.new_mac is not None]
    kept = [device for device in pci if device.key not in gone]
    new = [made for one in devices if (made := one.made(0)) is not None]
    return {
        "nics": tuple(mac.casefold() for mac in (*macs, *added) if mac),
        "new_nics": sum(not mac for mac in (*macs, *added)),
        "pci": tuple(sorted(map(pci_word, (*kept, *new)))),
    }


def made_by(detail: VmDetail, devices: Sequence[DeviceEdit]) -> dict[str, Any]:
    """Return how an owner mark names the devices of a clone: its NICs are counted only.

    A server may drop part of the request; missing parts are set later, MACs included.
    """
    held = held_after(plain_nics(detail), _pci(detail), devices)
    return {"new_nics": len(held["nics"]) + held["new_nics"], "nics": (), "pci": held["pci"]}


def all_devices(detail: VmDetail) -> dict[str, Any]:
    """Return how an owner mark names all devices of a VM, as of one that is imported."""
    return held_after(plain_nics(detail), _pci(detail), ())


def pci_word(device: PciDevice) -> str:
    """Describe a vGPU or a function: its profile, its address, or which ones may be assigned."""
    if isinstance(device, VgpuDevice):
        return device.profile
    if device.pci_id:
        return device.pci_id
    ids = "/".join(f"{vendor:04x}:{function:04x}" for vendor, function in sorted(device.allowed))
    return f"{ids}@{device.label}" if device.label else ids


def plain_nics(detail: VmDetail) -> list[VirtualNic]:
    """Return the virtual NICs, in the order of their keys, without those of device groups and by DVX."""
    found = (nic for nic in detail.own_nics if nic.group_key is None)
    return sorted(found, key=lambda nic: nic.key)


def device_text(device: Device, networks: Mapping[str, str] | None = None) -> str:
    """Describe a device to a reader; `networks` spells the networks of NICs."""
    match device:
        case VirtualNic():
            network = (networks or {}).get(device.network)
            on = f" on {network}" if network else ""
            return f"{device.kind} NIC{on} (MAC {device.mac or 'unknown'})"
        case VgpuDevice():
            return f"vGPU {device.profile}"
        case PassthroughDevice():
            return f"passthrough {'NIC' if device.is_nic else 'device'} {pci_word(device)}"


def as_detail(devices: Collection[Device]) -> VmDetail:
    """Return a VM that has nothing but these devices."""
    return VmDetail(
        vgpus=tuple(one for one in devices if isinstance(one, VgpuDevice)),
        passthrough=tuple(one for one in devices if isinstance(one, PassthroughDevice)),
        nics=tuple(one for one in devices if isinstance(one, VirtualNic)),
    )


def recorded_others(vm: Vm) -> tuple[Device, ...]:
    """Return the devices of a VM that its owner mark says are not the plan's; of an older mark none is."""
    mark, nothing = vm.mark or OwnerMark(plan="", vm=""), Wanting()
    nics = nothing if mark.has_nics else None
    pci = nothing if mark.pci is not None else None
    return owned_devices(vm, nics, pci, pci).others


def owned_devices(
    vm: Vm, nics: Wanting | None, gpus: Wanting | None, functions: Wanting | None
) -> OwnedDevices:
    """Separate a VM's devices; of a kind that is None all count as the plan's, as nothing is done to them.

    Devices that the plan file requests beyond the plan's own are the plan's, too, if they exist: they are
    taken over. A mark of an older release names none: then the plan file decides, and any remaining ones are
    not the plan's.
    """
    detail, mark = vm.detail or VmDetail(), vm.mark or OwnerMark(plan="", vm="")
    virtual, pci = plain_nics(detail), _pci(detail)
    known = _by_words(virtual, lambda nic: nic.mac.casefold(), mark.nics or ())
    missing = len(mark.nics or ()) - len(known)
    rest = [nic for nic in virtual if nic.key not in known and nic.mac.casefold() not in mark.other_nics]
    known |= {nic.key for nic in rest[: mark.new_nics]}
    own = _own(virtual, known if mark.has_nics else None, nics, missing)
    words = None if mark.pci is None else _by_words(pci, pci_word, mark.pci)
    first = _firsts(pci)
    is_nic = {key: isinstance(one, PassthroughDevice) and one.is_nic for key, one in first.items()}
    own_pci = _own((*detail.vgpus, *detail.passthrough_gpus), words, gpus)
    own_pci |= _own([one for one in detail.passthrough_nics if is_nic[one.key]], words, functions)
    own_pci |= _changed(pci, mark.pci or (), own_pci)
    is_asked = {key: (functions if is_nic[key] else gpus) is not None for key in first}
    return OwnedDevices(
        mark=mark,
        nics=tuple(nic for nic in virtual if nic.key in own),
        pci=tuple(one for one in pci if first[one.key].key in own_pci),
        others=(
            *(nic for nic in virtual if nic.key not in own and nics is not None),
            *(one for one in pci if first[one.key].key not in own_pci and is_asked[one.key]),
        ),
        has_nics=nics is not None,
        has_pci=gpus is not None or functions is not None,
    )


def _pci(detail: VmDetail) -> list[PciDevice]:
    return sorted((*detail.vgpus, *detail.passthrough), key=lambda one: one.key)


def _by_words(devices: Iterable[_T], word: Callable[[_T], str], words: Iterable[str]) -> set[int]:
    """Return the keys of devices that words name, each as often as it occurs."""
    left, found = Counter(words), set[int]()
    for device in devices:
        if left[word(device)] > 0:
            left[word(device)] -= 1
            found.add(device.key)
    return found


def _changed(pci: Sequence[PciDevice], words: Sequence[str], own: Collection[int]) -> set[int]:
    """Return the keys of devices of the plan that were changed manually, as to another profile.

    An unmarked device is one if a device of the mark is gone, and if no other may have been added: the VM has
    no more devices than the plan made, or its key is one of the first.
    """
    gone = Counter(words) - Counter(pci_word(one) for one in pci if one.key in own)
    is_vgpu = [":" not in word for word in gone.elements()]
    found = set[int]()
    for one in pci:
        is_within = len(pci) <= len(words) or one.key < FIRST_PCI_KEY + len(words)
        if one.key not in own and is_within and (kind := isinstance(one, VgpuDevice)) in is_vgpu:
            is_vgpu.remove(kind)
            found.add(one.key)
    return found


def _own(
    devices: Sequence[Device], known: Collection[int] | None, wanting: Wanting | None, missing: int = 0
) -> set[int]:
    """Return the keys of the plan's: `known` by the mark, None for an older one, and those taken over.

    `missing` counts the NICs that the mark names and that are gone: one with another MAC may be such a one.
    """
    own = {one.key for one in devices if one.key in (known or ())}
    if wanting is None:
        return own
    open_numbers = list(range(wanting.count))

    def takes(device: Device, is_it: Callable[[int, Device], bool]) -> bool:
        number = next((one for one in open_numbers if is_it(one, device)), None)
        if number is not None:
            open_numbers.remove(number)
        return number is not None

    for device in devices:
        if device.key in own:
            takes(device, wanting.is_it)
    room = wanting.count - len(own)
    ways = [(wanting.is_it, room), (wanting.is_like, missing)]
    if known is None:
        ways.append((lambda _number, _device: True, room))
    for is_it, most in ways:
        most_of_all = min(wanting.count, len(own) + most)
        for device in devices:
            if device.key not in own and len(own) < most_of_all and takes(device, is_it):
                own.add(device.key)
    return own


def _firsts(pci: Sequence[PciDevice]) -> dict[int, PciDevice]:
    """Return, by each device's key, the one that decides: a device group goes whole, with its first vGPU."""
    first: dict[int, PciDevice] = {}
    for one in sorted(pci, key=lambda one: isinstance(one, PassthroughDevice)):
        if one.group_key is not None:
            first.setdefault(one.group_key, one)
    return {one.key: one if one.group_key is None else first[one.group_key] for one in pci}


def _is_of_nics(devices: Sequence[DeviceEdit], nics: Sequence[VirtualNic]) -> bool:
    keys = {nic.key for nic in nics}
    return any(one.macs or one.removes in keys or one.new_mac is not None for one in devices)


def _is_of_pci(devices: Iterable[DeviceEdit], pci: Sequence[PciDevice]) -> bool:
    keys = {one.key for one in pci}
    return any(one.is_of_gpu and (one.removes is None or one.removes in keys) for one in devices)


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
