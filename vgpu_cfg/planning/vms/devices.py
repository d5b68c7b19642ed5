"""The edits that give a VM exactly the desired devices: GPUs, NICs, disks and their storage policies.

GPU devices are matched by kind, never by slot: vGPUs as a multiset, passthrough by function. Removals come
first, since additions may need the framebuffer they free; a profile is replaced by a removal and an addition
(there is no proof that vSphere lets it be edited). Other NICs are matched by network first, then in their
order. A disk is never shrunk and never removed: its content must not be lost. A running VM accepts storage
policies; on vSAN its objects are then written anew, which takes time and space.

Belief: group-members-are-fixed, virtual-function-mac-is-fixed, pvrdma-by-the-api, dvx-devices-are-sent-back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from types import MappingProxyType

from vgpu_cfg.changes.kinds.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewDynamicPassthrough,
    NewNic,
    NewPassthrough,
    NewPvrdmaNic,
    NewSriovNic,
    NewVgpu,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
    policy_leaves,
)
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.desired import DesiredDisk, DesiredDiskGrowth, DesiredNewDisk
from vgpu_cfg.model.observed.inventory import Host, PciDevice, StoragePolicy
from vgpu_cfg.model.observed.vm import (
    DvxDevice,
    PassthroughDevice,
    VgpuDevice,
    VirtualNic,
    VmDetail,
    any_text,
)
from vgpu_cfg.model.wording import gib
from vgpu_cfg.planning.capacity.host_capacity import SRIOV
from vgpu_cfg.planning.capacity.nic_needs import host_functions, is_matching
from vgpu_cfg.planning.estate.devices import FIRST_PCI_KEY, OwnedDisks
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.wanted import (
    PVRDMA,
    VMXNET3,
    FunctionDevice,
    NewFunction,
    PlannedFunction,
    WantedFunction,
    WantedGpu,
    WantedNic,
    is_of_peers,
    need_of,
    pair_functions,
    single_functions,
    staying_groups,
)
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


def plan_functions(
    wanted: Sequence[WantedFunction], own: VmDetail | None, host: Host | None, chosen: Sequence[str]
) -> tuple[PlannedFunction, ...]:
    """Say which device each function is: the one that a VM which exists (`own`) has, else the one chosen.

    `chosen` are the addresses that placement gave, one for each of `wanted`; empty where it gave none.
    """
    pairs = pair_functions(wanted, own, host) if own is not None else {}
    found = []
    for index, nic in enumerate(wanted):
        note = nic.called if nic.function.kind == "passthrough" else ""
        kept = pairs.get(index)
        if kept is not None:
            found.append(PlannedFunction(keeps=kept.key, note=note))
        elif host is not None and index < len(chosen):
            found.append(PlannedFunction(_device(nic, chosen[index], host), note=note))
        else:
            found.append(PlannedFunction(note=note))
    return tuple(found)


def compare_functions(
    wanted: Sequence[PlannedFunction], detail: VmDetail, names: Mapping[str, str]
) -> Iterator[VmEdit]:
    """Yield the edits that give a VM exactly these functions; `names` spells the networks of those it has."""
    kept = {plan.keeps for plan in wanted}
    for device in single_functions(detail):
        if device.key not in kept:
            was = own_text(device, names)
            yield device_edit(
                Topic.NIC, Edit(key="nic", before=was), [RemoveDevice(key=device.key, was=was)], is_late=True
            )
    for plan in wanted:
        if plan.device is not None:
            edit = Edit(key="nic", after=plan.device.text, note=plan.note)
            yield device_edit(Topic.NIC, edit, [plan.device], is_late=True)


def own_text(device: FunctionDevice, names: Mapping[str, str]) -> str:
    """Spell a device that a VM has."""
    if isinstance(device, VirtualNic):
        of = f" of {device.function}" if device.function else ""
        return f"virtual function{of} on {names.get(device.network, device.network or 'no network')}"
    if device.pci_id is not None:
        return f"passthrough {device.pci_id}"
    return any_text(device.allowed, (), device.label)


def _device(nic: WantedFunction, pci_id: str, host: Host) -> NewFunction:
    if nic.function.kind == "sriov" and nic.backing is not None:
        return NewSriovNic(backing=nic.backing, function=pci_id, mac=nic.mac or nic.new_mac)
    function = nic.function
    if function.label is not None and function.pin is None:
        return NewDynamicPassthrough(allowed=_allowed(nic, host), label=function.label)
    pci = next((one for one in host_functions(host) if one.pci_id == pci_id), None)
    return fixed_device(pci_id, pci, host)


def fixed_device(pci_id: str, pci: PciDevice | None, host: Host | None) -> NewPassthrough:
    """Return the device that names one function of one host, with what its backing needs."""
    return NewPassthrough(
        pci_id=pci_id,
        system_id=(host.system_id or "") if host is not None else "",
        vendor_id=pci.vendor_id if pci is not None else 0,
        device_id=pci.device_id if pci is not None else 0,
        device_name=pci.device_name if pci is not None else "",
    )


def _allowed(nic: WantedFunction, host: Host) -> tuple[tuple[int, int], ...]:
    """Return the ids of the host's functions that have the label and the model."""
    need = need_of(nic)
    matching = [pci for pci in host_functions(host) if is_matching(pci, need)]
    return tuple(sorted({(pci.vendor_id, pci.device_id) for pci in matching}))


MOST_NICS = 10
KEY = "storage policy"


@dataclass(slots=True)
class DiskEdits:
    """The difference. `shrinking` names disks that are larger than requested, as (MiB now, MiB requested).

    `there` are the disks that the VM has already, of those that are asked for or came with its template, by
    their keys, each with its entry if it has one. `missing` are the entries for which the VM has no disk that
    is certainly the plan's, though it has one that may be: nothing is done for them.
    """

    edits: list[VmEdit] = field(default_factory=list)
    there: dict[int, DesiredDisk | None] = field(default_factory=dict)
    shrinking: list[tuple[int, int]] = field(default_factory=list)
    grows: bool = False
    missing: list[DesiredDisk] = field(default_factory=list)


def compare_nics(wanted: Sequence[WantedNic], detail: VmDetail, names: Mapping[str, str]) -> Iterator[VmEdit]:
    """Yield the edits that give a VM exactly these NICs; `names` spells the networks of those it has.

    Of `wanted` only vmxnet3 ones count. Virtual functions and paravirtual RDMA NICs are not looked at: see
    `compare_functions` and `compare_kind`.
    """
    for nic in detail.own_nics:
        if nic.group_key is None and nic.kind.casefold() not in (VMXNET3, PVRDMA, SRIOV):
            yield _removal(nic, names)
    yield from compare_kind(VMXNET3, wanted, detail, names)


def matched_nics(
    kind: str, wanted: Sequence[WantedNic], detail: VmDetail
) -> tuple[list[tuple[WantedNic, VirtualNic | None]], list[VirtualNic]]:
    """Return which NIC each of `wanted` of a kind becomes, None for a new one, and those left over."""
    usable = [nic for nic in detail.own_nics if nic.group_key is None and nic.kind.casefold() == kind]
    matched: list[tuple[WantedNic, VirtualNic | None]] = []
    for want in wanted:
        if want.kind == kind:
            same = [nic for nic in usable if nic.network == want.network]
            found = min(same, key=lambda nic: not _has_mac(nic, want.mac), default=None)
            if found is not None:
                usable.remove(found)
            matched.append((want, found))
    for index, (want, found) in enumerate(matched):
        if found is None and usable:
            matched[index] = want, usable.pop(0)
    return matched, usable


def compare_kind(
    kind: str, wanted: Sequence[WantedNic], detail: VmDetail, names: Mapping[str, str]
) -> Iterator[VmEdit]:
    """Yield the edits that give a VM exactly the NICs of a kind among `wanted`."""
    is_late = kind == PVRDMA
    matched, usable = matched_nics(kind, wanted, detail)
    for want, found in matched:
        if found is None or found.network != want.network or _has_mac(found, want.mac):
            continue
        is_default = want.mac == want.new_mac
        edit = Edit(
            key="nic mac",
            before=found.mac,
            after=want.mac,
            is_default=is_default,
            note=want.backing.network_name,
        )
        device = EditNic(key=found.key, backing=want.backing, mac=want.mac)
        yield device_edit(Topic.NIC, edit, [device], is_late=is_late)
    for want, found in matched:
        name = want.backing.network_name
        if found is not None and found.network == want.network:
            continue
        if found is not None:
            edit = Edit(
                key="nic",
                before=names.get(found.network, found.network),
                after=name,
                note=f"MAC {want.mac}" if want.mac else "",
            )
            device = EditNic(key=found.key, backing=want.backing, mac=want.mac)
            yield device_edit(Topic.NIC, edit, [device], is_late=is_late)
            continue
        mac = want.mac or want.new_mac
        new = NewNic if kind == VMXNET3 else NewPvrdmaNic
        note = f"{kind}, MAC {mac}{'*' if mac == want.new_mac else ''}" if mac else kind
        edit = Edit(key="nic", after=name, note=note)
        yield device_edit(Topic.NIC, edit, [new(backing=want.backing, mac=mac)], is_late=is_late)
    for nic in usable:
        yield _removal(nic, names)


def compare_disks(
    wanted: Sequence[DesiredDisk],
    detail: VmDetail,
    inherited: frozenset[int],
    policy_of: Callable[[DesiredDisk], PolicyRef | None] = lambda _disk: None,
    owned: OwnedDisks | None = None,
) -> DiskEdits:
    """List the edits that grow the template's first disk and add the plan's own.

    `inherited` are the keys of the disks that came with the template, which a clone keeps. The
    others are the plan's: matched by the kind of their controller, then in their order. Disks that are not
    the plan's by `owned` do not count at all. `policy_of` says which storage policy a new disk gets.
    """
    result = DiskEdits()
    plans = detail.disks if owned is None else owned.own
    is_unclear = owned is not None and not owned.is_certain and bool(owned.others)
    result.there = dict.fromkeys(disk.key for disk in plans if disk.key in inherited)
    kinds = {controller.key: controller.kind for controller in detail.controllers}
    disks = sorted(plans, key=lambda disk: disk.key)
    own = [disk for disk in disks if disk.key not in inherited]
    for want in wanted:
        if isinstance(want, DesiredDiskGrowth):
            first = next((disk for disk in disks if disk.key in inherited), None)
            if first is None:
                result.missing.append(want)
                continue
            result.there[first.key] = want
            if first.capacity_mib < want.size_mib:
                _grow(first.key, first.capacity_mib, want.size_mib, result)
            continue
        alike = [disk for disk in own if kinds.get(disk.controller_key, want.controller) == want.controller]
        if not alike and is_unclear:
            result.missing.append(want)
            continue
        if not alike:
            _add(want, policy_of(want), result)
            continue
        own.remove(alike[0])
        result.there[alike[0].key] = want
        if alike[0].capacity_mib < want.size_mib:
            _grow(alike[0].key, alike[0].capacity_mib, want.size_mib, result)
        elif alike[0].capacity_mib > want.size_mib:
            result.shrinking.append((alike[0].capacity_mib, want.size_mib))
    return result


def _grow(key: int, before: int, after: int, result: DiskEdits) -> None:
    result.grows = True
    edit = Edit(key="disk", before=gib(before), after=gib(after), note="grown")
    result.edits.append(device_edit(Topic.DISK, edit, [GrowDisk(key=key, size_mib=after)]))


def _add(want: DesiredNewDisk, policy: PolicyRef | None, result: DiskEdits) -> None:
    note = f"thin, {want.controller}{f', storage policy {policy.name}' if policy is not None else ''}"
    edit = Edit(key="disk", after=gib(want.size_mib), note=note)
    device = NewDisk(size_mib=want.size_mib, controller=want.controller, policy=policy)
    result.edits.append(device_edit(Topic.DISK, edit, [device]))


def _removal(nic: VirtualNic, names: Mapping[str, str]) -> VmEdit:
    was = f"{nic.kind} NIC on {names.get(nic.network, nic.network or 'no network')}"
    return device_edit(Topic.NIC, Edit(key="nic", before=was), [RemoveDevice(key=nic.key, was=was)])


def _has_mac(nic: VirtualNic, mac: str | None) -> bool:
    return mac is None or nic.mac.casefold() == mac.casefold()


def policy_of(vm: PlacedVm, disk: DesiredDisk | None) -> PolicyRef | None:
    """Return the policy of a disk: its own, else the VM's; None if none is requested."""
    own = disk.storage_policy if disk is not None else None
    asked = own or (vm.desired.storage_policy if vm.manages("storage_policy") else None)
    found = vm.resolved.policies.get(asked or "")
    return None if found is None else PolicyRef(id=found.id, name=found.name)


def compare_policies(vm: PlacedVm, disks: Mapping[int, DesiredDisk | None]) -> Iterator[VmEdit]:
    """Yield the edits of the home and of `disks`: those that are there, by their keys, with their entries.

    A template's policies are ignored: a clone gets the requested ones.
    """
    known = {one.id: one for one in vm.resolved.known_policies}
    held = {} if vm.is_new else {disk.key: disk.policy for disk in vm.base.disks}
    wanted = policy_of(vm, None)
    if wanted is not None and (vm.is_new or vm.base.home_policy != wanted.id):
        before = None if vm.is_new else _name(vm.base.home_policy, known)
        yield home_edit(before, wanted, is_clone=vm.is_new and not vm.is_scratch)
    for key, entry in sorted(disks.items()):
        policy = policy_of(vm, entry)
        found = held.get(key)
        if policy is not None and policy.id != found:
            store = vm.resolved.datastore if vm.is_new else None
            yield disk_edit(key, _name(found, known), policy, copied_to=store.moid if store else "")


def home_edit(before: str | None, policy: PolicyRef, *, is_clone: bool = False) -> VmEdit:
    """Return the edit of the home's policy."""
    sets = policy_leaves("", policy, "location.profile" if is_clone else "vmProfile")
    edit = Edit(key=KEY, before=before, after=policy.name, note="home", sets=sets)
    return VmEdit(topic=Topic.DISK, edit=edit, spec=VmSpec(home_policy=policy), is_live=True)


def disk_edit(key: int, before: str | None, policy: PolicyRef, *, copied_to: str = "") -> VmEdit:
    """Return the edit of a disk's policy; of a clone it goes with the datastore that its copy goes to."""
    sets = policy_leaves(f"deviceChange[{key}]", policy)
    if copied_to:
        at = f"location.disk[{key}]"
        sets = {f"{at}.diskId": str(key), f"{at}.datastore": copied_to, **policy_leaves(at, policy)}
    edit = Edit(key=KEY, before=before, after=policy.name, note=f"disk {key}", sets=sets)
    spec = VmSpec(devices=(SetDiskPolicy(key=key, policy=policy),))
    return VmEdit(topic=Topic.DISK, edit=edit, spec=spec, is_live=True)


def _name(policy_id: str | None, known: Mapping[str, StoragePolicy]) -> str | None:
    """Return the name of a policy, its id if it is unknown; None for none."""
    found = known.get(policy_id or "")
    return policy_id or None if found is None else found.name
