"""The edits that give a VM exactly the desired GPU devices: vGPUs as a multiset, passthrough by function.

A device is matched by its kind, never by its slot. Removals come first, since additions may need the
framebuffer they free; a profile is replaced by a removal and an addition (there is no proof that vSphere lets
it be edited).

Belief: group-members-are-fixed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from types import MappingProxyType

from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    NewDynamicPassthrough,
    NewPassthrough,
    NewVgpu,
    RemoveDevice,
)
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.observed.vm import (
    DvxDevice,
    PassthroughDevice,
    VgpuDevice,
    VirtualNic,
    VmDetail,
)
from vgpu_cfg.planning.estate.devices import FIRST_PCI_KEY
from vgpu_cfg.planning.vms.lookup.gpu_match import staying_groups
from vgpu_cfg.planning.vms.lookup.nic_match import is_of_peers
from vgpu_cfg.planning.vms.lookup.wanted import WantedGpu
from vgpu_cfg.planning.vms.settings.edits import VmEdit, device_edit, pair_edit
from vgpu_cfg.planning.vms.settings.setting import Topic


def uvm_key(device_key: int) -> str:
    """Return the extraConfig key that turns a vGPU's unified memory on."""
    return f"pciPassthru{device_key - FIRST_PCI_KEY}.cfg.enable_uvm"


def has_uvm(device: VgpuDevice, detail: VmDetail) -> bool:
    """Whether a vGPU's unified memory is on."""
    return detail.extra_config.get(uvm_key(device.key), "0").strip() in ("1", "TRUE", "true")


@dataclass(frozen=True, slots=True)
class _Row:
    """A line for a reader: one device, or a device group with all its members."""

    text: str
    devices: tuple[DeviceEdit, ...]
    note: str = ""
    extra_config: Mapping[str, str] = field(default_factory=dict)
    groups: Mapping[int, str] = field(default_factory=dict)


def compare_gpus(
    wanted: Sequence[WantedGpu],
    detail: VmDetail,
    notes: Sequence[str] = (),
    groups: Mapping[int, str] = MappingProxyType({}),
) -> list[VmEdit]:
    """List the edits that give a VM exactly these GPU devices; `notes` go with the wanted ones.

    `groups` names the device groups that wanted vGPUs are members of. Members stay together: a
    group that the VM has otherwise goes as a whole, and a new one comes as a whole. One of a GPU with other
    devices, which no key asks for, counts as its vGPUs, and stays where all of them are wanted.
    """
    edits: list[VmEdit] = []
    remarks = {index: note for index, note in enumerate(notes) if note}
    left_vgpus = list(detail.vgpus)
    left_others = list(detail.passthrough_gpus)
    plain_names = [(gpu.profile, "") for gpu in wanted if isinstance(gpu, NewVgpu) and gpu.group is None]
    staying = staying_groups(plain_names, detail)
    new: list[tuple[WantedGpu, str]] = []
    own_groups = {
        key: _take_group([gpu for gpu in wanted if _group_of(gpu) == key], name, left_vgpus, detail)
        for key, name in groups.items()
    }
    for index, gpu in enumerate(wanted):
        if isinstance(gpu, NewVgpu):
            plain = [one for one in left_vgpus if one.group_key is None or one.group_key in staying]
            plain.sort(key=lambda one: one.group_key is None)
            among = plain if gpu.group is None else own_groups[gpu.group]
            found = _best_vgpu(gpu, among, detail)
            if found is not None:
                (left_vgpus if gpu.group is None else own_groups[gpu.group]).remove(found)
                edits += _compare_uvm(gpu, found, detail)
                continue
        else:
            other = next((one for one in left_others if _is_same(gpu, one)), None)
            if other is not None:
                left_others.remove(other)
                continue
        new.append((gpu, remarks.get(index, "")))
    gone = (device for device in left_others if device.group_key is None)
    going = [*_rows_before(left_vgpus, detail), *map(_row_of_passthrough, gone)]
    coming = list(_rows_after(new, groups))
    for before, after in zip_longest(going, coming, fillvalue=_NONE):
        edits.append(
            device_edit(
                Topic.GPU,
                Edit(key="gpu", before=before.text or None, after=after.text or None, note=after.note),
                (*before.devices, *after.devices),
                extra_config=before.extra_config,
                device_groups=after.groups,
                is_late=True,
            )
        )
    return edits


_NONE = _Row("", ())


def _group_of(gpu: WantedGpu) -> int | None:
    return gpu.group if isinstance(gpu, NewVgpu) else None


def _take_group(
    members: Sequence[WantedGpu], name: str, left: list[VgpuDevice], detail: VmDetail
) -> list[VgpuDevice]:
    """Remove the vGPUs of a device group with this name and these members from the rest, if it exists."""
    profiles = sorted(gpu.profile for gpu in members if isinstance(gpu, NewVgpu))
    for key, own_name in sorted(detail.device_groups.items()):
        own = [device for device in left if device.group_key == key]
        if own_name == name and sorted(device.profile for device in own) == profiles:
            for device in own:
                left.remove(device)
            return own
    return []


def _rows_before(left: Sequence[VgpuDevice], detail: VmDetail) -> Iterator[_Row]:
    """Yield the removals: vGPUs with the keys of their unified memory, groups as a whole."""
    groups = {device.group_key for device in left if device.group_key is not None}
    reported: set[int] = set()
    for device in left:
        key = device.group_key
        if key is None:
            yield _row_of_vgpus([device], device.profile, detail)
        elif key in groups and key not in reported:
            reported.add(key)
            members = [other for other in left if other.group_key == key]
            name = detail.device_groups.get(key, "")
            are_peers = key not in detail.mixed_groups
            words = group_text(device.profile, len(members), name, are_peers=are_peers)
            yield _row_of_group(_row_of_vgpus(members, words, detail), key, detail)


def _row_of_vgpus(devices: Sequence[VgpuDevice], words: str, detail: VmDetail) -> _Row:
    keys = [uvm_key(device.key) for device in devices]
    return _Row(
        words,
        tuple(RemoveDevice(key=device.key, was=device.profile) for device in devices),
        extra_config={key: "" for key in keys if key in detail.extra_config},
    )


def _row_of_group(row: _Row, key: int, detail: VmDetail) -> _Row:
    """Let the other members of a device group go with its vGPUs: vSphere removes groups whole only."""
    others = detail.other_members(key)
    words = [_member_text(one) for one in others]
    return replace(
        row,
        text=" with ".join([row.text, *([", ".join(words)] if words else [])]),
        devices=(
            *row.devices,
            *(RemoveDevice(key=one.key, was=said) for one, said in zip(others, words, strict=True)),
        ),
    )


def _member_text(device: PassthroughDevice | DvxDevice | VirtualNic) -> str:
    match device:
        case PassthroughDevice():
            return device.text
        case DvxDevice():
            return f"DVX device {device.device_class}"
        case VirtualNic():
            return f"{device.kind} NIC"


def _row_of_passthrough(device: PassthroughDevice) -> _Row:
    words = device.text
    return _Row(words, (RemoveDevice(key=device.key, was=words),))


def _rows_after(new: Sequence[tuple[WantedGpu, str]], groups: Mapping[int, str]) -> Iterator[_Row]:
    reported: set[int] = set()
    for gpu, note in new:
        key = _group_of(gpu)
        if key is None:
            yield _Row(gpu.text, (gpu,), note)
        elif key not in reported:
            reported.add(key)
            members = tuple(other for other, _ in new if _group_of(other) == key)
            name = groups.get(key, "")
            words = group_text(gpu.text, len(members), name, are_peers=is_of_peers(key))
            yield _Row(words, members, note, groups={key: name})


def group_text(member: str, count: int, name: str, *, are_peers: bool = True) -> str:
    """Spell a device group for a reader by one of its vGPUs; `are_peers` is whether it has nothing else."""
    kind = "NVLink group" if are_peers else "device group"
    return f"{count} × {member}, {kind} {name}".rstrip()


def _best_vgpu(gpu: NewVgpu, left: Sequence[VgpuDevice], detail: VmDetail) -> VgpuDevice | None:
    same = [device for device in left if device.profile == gpu.profile]
    return min(same, key=lambda device: has_uvm(device, detail) is not gpu.uvm, default=None)


def _compare_uvm(gpu: NewVgpu, found: VgpuDevice, detail: VmDetail) -> Iterator[VmEdit]:
    if has_uvm(found, detail) is not gpu.uvm:
        key = uvm_key(found.key)
        yield pair_edit(key, detail.extra_config.get(key), "1" if gpu.uvm else "", note=gpu.profile)


def _is_same(gpu: NewPassthrough | NewDynamicPassthrough, device: PassthroughDevice) -> bool:
    if isinstance(gpu, NewPassthrough):
        return device.pci_id == gpu.pci_id
    return (
        not device.is_fixed
        and bool(device.allowed)
        and set(device.allowed) == set(gpu.allowed)
        and (device.label or None) == (gpu.label or None)
    )
