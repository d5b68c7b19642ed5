"""The edits that give a VM the desired vmxnet3 and paravirtual RDMA NICs, and disks.

NICs are matched by network first, then in their order, never by slot. A disk is never shrunk and never
removed: its content must not be lost.

The edits that give a VM's home and its disks the storage policies that the plan file names.

A running VM takes them; on vSAN its objects are then written anew, which takes time and space.

Belief: dvx-devices-are-sent-back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.kinds.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewNic,
    NewPvrdmaNic,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
    policy_leaves,
)
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.desired import DesiredDisk, DesiredDiskGrowth, DesiredNewDisk
from vgpu_cfg.model.observed.inventory import StoragePolicy
from vgpu_cfg.model.observed.vm import VirtualNic, VmDetail
from vgpu_cfg.model.wording import gib
from vgpu_cfg.planning.capacity.nic_functions import SRIOV
from vgpu_cfg.planning.estate.devices import OwnedDisks
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, VMXNET3, WantedNic
from vgpu_cfg.planning.vms.settings.edits import VmEdit, device_edit
from vgpu_cfg.planning.vms.settings.setting import Topic

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
