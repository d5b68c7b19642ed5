"""Restore a VM after a reconfigure: settings, pairs, devices. No disk is ever removed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from vgpu_cfg.changes.change import Change, ReconfigureVm
from vgpu_cfg.changes.kinds.configure_vm import VTPM
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
    NewTpm,
    NewVgpu,
    NicBacking,
    PolicyRef,
    RemoveDevice,
    SetDiskPolicy,
)
from vgpu_cfg.changes.values import Edit, Subject, VmRef
from vgpu_cfg.model.observed.inventory import Network
from vgpu_cfg.model.observed.vm import PassthroughDevice, VgpuDevice, VirtualNic, Vm, VmDetail
from vgpu_cfg.planning.capacity.nic_functions import SRIOV
from vgpu_cfg.planning.estate.devices import recorded_others
from vgpu_cfg.planning.rollback.run import FailedRun
from vgpu_cfg.planning.vms.devices.gpu_devices import has_uvm
from vgpu_cfg.planning.vms.devices.other_devices import disk_edit, home_edit
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA
from vgpu_cfg.planning.vms.new_vms import change_id
from vgpu_cfg.planning.vms.settings.edits import (
    VmEdit,
    current,
    device_edit,
    joined,
    pair_edit,
    setting_leaves,
    setting_spec,
    shown,
)
from vgpu_cfg.planning.vms.settings.setting import Topic
from vgpu_cfg.planning.vms.settings.table import vm_setting

_IS_NEW = NewVgpu | NewPassthrough | NewDynamicPassthrough | NewNic | NewSriovNic | NewPvrdmaNic | NewTpm
_WhatWas = VgpuDevice | PassthroughDevice | VirtualNic


def reconfigured_back(change: ReconfigureVm, before: Vm, now: Vm, run: FailedRun) -> Iterable[Change]:
    """Return the reconfigure that takes back what this run's shows; nothing where nothing of it shows."""
    was, found = before.detail, now.detail
    if was is None or found is None:
        return run.cannot(change, "the VM's details could not be read", "grant the account read access to it")
    edits = [
        *_settings(change, found),
        *_pairs(change, before, found),
        *_devices(change, was, now, run),
        *_home_policy_back(change, was, found, run),
    ]
    if not edits:
        return ()
    spec = joined(edits).model_copy(update={"change_version": found.change_version or None})
    return [
        ReconfigureVm(
            id=change_id("reconfigure", now.name),
            subject=Subject(kind="vm", name=now.name, moid=now.moid),
            edits=shown(edits),
            host_moid=now.host_moid,
            vm=VmRef(name=now.name, moid=now.moid),
            spec=spec,
        )
    ]


def _settings(change: ReconfigureVm, found: VmDetail) -> Iterator[VmEdit]:
    for key, value in change.undo.settings.items():
        row = vm_setting(key)
        if row is not None and not row.holds(value, found):
            edit = Edit(
                key=key,
                before=row.text_of(found),
                after=row.text(value) or None,
                sets=setting_leaves(row, value),
            )
            yield VmEdit(topic=row.topic, edit=edit, spec=setting_spec(row, value))


def _pairs(change: ReconfigureVm, before: Vm, found: VmDetail) -> Iterator[VmEdit]:
    """Yield the pairs that were others before; a complete owner mark is written back as it was."""
    pairs = dict(change.undo.extra_config)
    if before.mark is not None and before.mark.id:
        pairs |= {key: text for key, text in before.mark.pairs.items() if key in change.spec.extra_config}
    for key, text in sorted(pairs.items()):
        here = current(key, found)
        if (here or "") != text:
            yield pair_edit(key, here, text)


def _devices(change: ReconfigureVm, was: VmDetail, now: Vm, run: FailedRun) -> Iterator[VmEdit]:
    """Yield what takes new devices away, without those that others added, and gives back those that went."""
    found = now.detail or VmDetail()
    if any(isinstance(one, _IS_NEW | NewDisk) for one in change.spec.devices):
        yield from _removals(was, found, {one.key for one in recorded_others(now)})
    for device in change.spec.devices:
        match device:
            case EditNic():
                yield from _nic_back(device.key, was, found, run)
            case RemoveDevice():
                yield from _given_back(change, device, was, found, run)
            case SetDiskPolicy():
                yield from _disk_policy_back(change, device, was, found, run)
            case GrowDisk():
                run.cannot(change, "disks cannot be shrunk")
            case NewDisk():
                run.cannot(change, "added disks are never removed", "delete it in vCenter")
            case _:
                continue


def _home_policy_back(
    change: ReconfigureVm, was: VmDetail, found: VmDetail, run: FailedRun
) -> Iterator[VmEdit]:
    if change.spec.home_policy is None or found.home_policy in (None, was.home_policy):
        return
    before = _policy(was.home_policy, run)
    if before is None:
        run.cannot(change, *_NO_POLICY)
        return
    yield home_edit(_policy_name(found.home_policy, run), before)


def _disk_policy_back(
    change: ReconfigureVm, device: SetDiskPolicy, was: VmDetail, found: VmDetail, run: FailedRun
) -> Iterator[VmEdit]:
    ids = [{disk.key: disk.policy for disk in one.disks}.get(device.key) for one in (was, found)]
    if ids[1] is None or ids[0] == ids[1]:
        return
    before = _policy(ids[0], run)
    if before is None:
        run.cannot(change, *_NO_POLICY)
        return
    yield disk_edit(device.key, _policy_name(ids[1], run), before)


_NO_POLICY = (
    "the storage policy remains: there was none before",
    "choose one in vCenter (VM > Edit VM Storage Policies)",
)


def _policy(policy_id: str | None, run: FailedRun) -> PolicyRef | None:
    known = run.after.vcenter.storage_policies or ()
    return next((PolicyRef(id=one.id, name=one.name) for one in known if one.id == policy_id), None)


def _policy_name(policy_id: str | None, run: FailedRun) -> str | None:
    found = _policy(policy_id, run)
    return policy_id or None if found is None else found.name


def _removals(was: VmDetail, found: VmDetail, others: Collection[int]) -> Iterator[VmEdit]:
    """Yield the removal of every GPU, NIC and TPM that was not there before; `others` are not the plan's."""
    known = _by_key(was)
    for key, device in _by_key(found).items():
        if key not in others and not _is_same(known.get(key), device):
            words = _words(device)
            yield device_edit(
                _topic(device), Edit(key=_noun(device), before=words), [RemoveDevice(key=key, was=words)]
            )
    if found.tpm_key is not None and was.tpm_key is None:
        edit = Edit(key="vtpm", before="yes")
        yield device_edit(Topic.OPTIONS, edit, [RemoveDevice(key=found.tpm_key, was=VTPM)])


def _is_same(before: _WhatWas | None, now: _WhatWas | None) -> bool:
    """Whether a device is the one that was there: a new one may get the key of one that went.

    A NIC that was tied to another network is the same.
    """
    match before, now:
        case VgpuDevice(), VgpuDevice():
            return (before.profile, before.numa_node) == (now.profile, now.numa_node)
        case PassthroughDevice(), PassthroughDevice():
            return (before.pci_id, set(before.allowed)) == (now.pci_id, set(now.allowed)) and (
                (before.label or "", before.numa_node, before.sub_ids)
                == (now.label or "", now.numa_node, now.sub_ids)
            )
        case VirtualNic(), VirtualNic():
            return (before.kind, before.function) == (now.kind, now.function)
        case _:
            return False


def _by_key(detail: VmDetail) -> dict[int, _WhatWas]:
    devices: list[_WhatWas] = [*detail.vgpus, *detail.passthrough, *detail.nics]
    return {one.key: one for one in devices}


def _given_back(
    change: ReconfigureVm, device: RemoveDevice, was: VmDetail, found: VmDetail, run: FailedRun
) -> Iterator[VmEdit]:
    before = _by_key(was).get(device.key)
    if _is_same(before, _by_key(found).get(device.key)):
        return
    again = None if before is None else _again(before, was, run)
    if before is None or again is None:
        run.cannot(change, f"{device.was} cannot be restored", "run `apply`, or add it in vCenter")
        return
    yield device_edit(_topic(before), Edit(key=_noun(before), after=_words(before)), [again])


def _again(device: _WhatWas, was: VmDetail, run: FailedRun) -> DeviceEdit | None:
    """Return what adds a device as it was; None for one that cannot be said anew."""
    match device:
        case VgpuDevice():
            if device.group_key is not None:
                return None
            return NewVgpu(profile=device.profile, uvm=has_uvm(device, was), numa_node=device.numa_node)
        case PassthroughDevice():
            return None if device.group_key is not None else _function_again(device, run)
        case VirtualNic():
            return None if device.group_key is not None or device.dvx_class else _nic_again(device, run)


def _function_again(device: PassthroughDevice, run: FailedRun) -> DeviceEdit | None:
    if device.pci_id is None:
        label = device.label or None
        return NewDynamicPassthrough(
            allowed=device.allowed, sub_ids=device.sub_ids, label=label, numa_node=device.numa_node
        )
    host = next((one for one in run.after.hosts if one.system_id and one.system_id == device.system_id), None)
    pci = None if host is None else host.device(device.pci_id)
    if pci is None:
        return None
    return NewPassthrough(
        pci_id=device.pci_id,
        system_id=device.system_id or "",
        vendor_id=pci.vendor_id,
        device_id=pci.device_id,
        numa_node=device.numa_node,
    )


def _nic_again(nic: VirtualNic, run: FailedRun) -> DeviceEdit | None:
    backing = _backing(nic.network, run)
    if backing is None:
        return None
    if nic.kind.casefold() == SRIOV:
        return None if nic.function is None else NewSriovNic(backing=backing, function=nic.function)
    return NewPvrdmaNic(backing=backing) if nic.kind.casefold() == PVRDMA else NewNic(backing=backing)


def _nic_back(key: int, was: VmDetail, found: VmDetail, run: FailedRun) -> Iterator[VmEdit]:
    before, here = (next((nic for nic in one.nics if nic.key == key), None) for one in (was, found))
    if before is None or here is None or (before.network, before.mac) == (here.network, here.mac):
        return
    backing = _backing(before.network, run)
    if backing is not None:
        mac = before.mac if before.mac != here.mac else None
        edit = Edit(key="nic", before=here.network, after=backing.network_name, note=f"MAC {before.mac}")
        yield device_edit(Topic.NIC, edit, [EditNic(key=key, backing=backing, mac=mac)])


def _backing(network: str, run: FailedRun) -> NicBacking | None:
    found: Network | None = next(
        (one for one in run.after.networks if network in (one.moid, one.portgroup_key)), None
    )
    if found is None:
        return None
    return NicBacking(
        network_moid=found.moid,
        network_name=found.name,
        portgroup_key=found.portgroup_key,
        switch_uuid=found.switch_uuid,
    )


def _topic(device: _WhatWas) -> Topic:
    is_nic = isinstance(device, VirtualNic) or (isinstance(device, PassthroughDevice) and device.is_nic)
    return Topic.NIC if is_nic else Topic.GPU


def _noun(device: _WhatWas) -> str:
    return "nic" if _topic(device) is Topic.NIC else "gpu"


def _words(device: _WhatWas) -> str:
    match device:
        case VgpuDevice():
            return device.profile
        case PassthroughDevice():
            return f"passthrough {device.pci_id or device.label or 'of any function'}"
        case VirtualNic():
            return f"{device.kind} NIC, MAC {device.mac}"
