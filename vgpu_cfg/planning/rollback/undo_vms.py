"""The rollback of each change of a VM, by the readings of the VM before the run and after it.

After a reconfigure, settings, pairs and devices are restored; no disk is ever removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    CreateVm,
    DestroyVm,
    MarkVm,
    MoveVmToFolder,
    PauseTraining,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    RelocateVm,
    RenameVm,
    ResumeTraining,
    SetAttributes,
    SetTags,
    StageGuest,
    UpgradeVm,
)
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
    VmSpec,
)
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.observed.inventory import Datastore, Network, ResourcePool
from vgpu_cfg.model.observed.vm import PassthroughDevice, PowerState, VgpuDevice, VirtualNic, Vm, VmDetail
from vgpu_cfg.planning.capacity.host_capacity import SRIOV
from vgpu_cfg.planning.estate.devices import own_datastores, owned_disks, recorded_others
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.rollback.attempt import FailedRun
from vgpu_cfg.planning.rollback.undo_sites import overrides_again
from vgpu_cfg.planning.vms.compare import tag_edit
from vgpu_cfg.planning.vms.destroy import plan_removal
from vgpu_cfg.planning.vms.devices import disk_edit, has_uvm, home_edit
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA
from vgpu_cfg.planning.vms.new_vms import change_id, set_tags
from vgpu_cfg.planning.vms.relocate import relocation, rename, to_folder
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


OfVm = (
    CreateVm
    | UpgradeVm
    | ReconfigureVm
    | MarkVm
    | SetAttributes
    | SetTags
    | PowerOnVm
    | PowerOffVm
    | RenameVm
    | MoveVmToFolder
    | RelocateVm
    | AwaitCustomization
    | StageGuest
    | PauseTraining
    | ResumeTraining
)
_GONE = "the VM no longer exists"


def undo_vm(change: OfVm, run: FailedRun) -> Iterable[Change]:
    """List what takes a change of a VM back; what cannot be is noted in the run."""
    if isinstance(change, CreateVm):
        return _unmade(change, run)
    if run.is_made(change.vm):
        return ()  # it goes with its VM
    before, now = (inventory.vm_by_moid.get(change.vm.moid or "") for inventory in (run.before, run.after))
    if before is None or now is None:
        return run.cannot(change, _GONE)
    match change:
        case ReconfigureVm():
            return reconfigured_back(change, before, now, run)
        case MarkVm():
            return _unmarked(change, now, run)
        case SetAttributes():
            return _attributes_back(change, before, now)
        case SetTags():
            return _tags_back(change, before, now)
        case PowerOnVm():
            return _off_again(change, before, now, run)
        case PowerOffVm():
            return _on_again(change, before, now, run)
        case RenameVm():
            name = before.called or before.name
            return [rename(now, name)] if (now.called or now.name) != name else ()
        case MoveVmToFolder():
            return _folder_back(change, before, now, run)
        case RelocateVm():
            return _moved_back(change, before, now, run)
        case PauseTraining():
            return [_resumed(change)]
        case ResumeTraining():
            return ()
        case UpgradeVm() | AwaitCustomization() | StageGuest():
            return run.cannot(change, *change.for_good)


def _resumed(change: PauseTraining) -> ResumeTraining:
    again = change_id("resume training", change.vm.name)
    return ResumeTraining(id=again, subject=change.subject, vm=change.vm, spec=change.spec)


def _common(vm: Vm) -> dict[str, Any]:
    """Return what every change of a VM has."""
    return {
        "subject": Subject(kind="vm", name=vm.name, moid=vm.moid),
        "host_moid": vm.host_moid,
        "vm": VmRef(name=vm.name, moid=vm.moid),
    }


def _unmade(change: CreateVm, run: FailedRun) -> Iterable[Change]:
    """Delete a VM that this run made, known by its moid, its instance UUID and the mark of this run."""
    vm, outcome = run.made.get(change.vm.name), run.outcomes[change.id]
    if vm is None:
        if outcome.vm_moid or not outcome.tasks:
            return ()
        return run.cannot(
            change,
            "vCenter did not report whether it created a VM, or which one",
            "check in vCenter; `apply` completes the VM, or reports why it cannot",
        )
    if not _is_of_this_run(vm, run, outcome.started_at):
        return run.leave(change, f"{vm.moid} does not have this run's owner mark")
    found = Findings()
    removal = plan_removal(vm, found)
    for one in found.diagnostics():
        if one.severity is Severity.ERROR:
            return run.leave(change, one.message)
    return [
        one.model_copy(update={"instance_uuid": vm.instance_uuid}) if isinstance(one, DestroyVm) else one
        for one in removal
    ]


def _is_of_this_run(vm: Vm, run: FailedRun, since: datetime | None) -> bool:
    """Whether a VM's mark was written since a moment; marks have whole seconds."""
    mark = vm.mark
    if mark is None or mark.is_imported or not vm.is_of(run.plan.desired.identity):
        return False
    if mark.made_at is None or since is None:
        return False
    return mark.made_at >= since.replace(microsecond=0)


def _unmarked(change: MarkVm, now: Vm, run: FailedRun) -> Iterable[Change]:
    if change.mark == "none":
        return run.cannot(change, "the VM no longer has a mark", "import it again with `vgpu-cfg import`")
    if now.mark is None:
        return ()
    spec = VmSpec(extra_config=dict.fromkeys(change.spec.extra_config, ""))
    before = now.mark.plan
    return [
        MarkVm(
            id=change_id("unmark", now.name),
            edits=(Edit(key="owner_mark", before=before, sets=spec.leaves()),),
            spec=spec,
            mark="none",
            **_common(now),
        )
    ]


def _attributes_back(change: SetAttributes, before: Vm, now: Vm) -> Iterable[Change]:
    was, found = ((vm.detail or VmDetail()).attributes for vm in (before, now))
    values = {name: was.get(name, "") for name in change.values if was.get(name, "") != found.get(name, "")}
    if not values:
        return ()
    edits = tuple(
        Edit(
            key=name, before=found.get(name) or None, after=text or None, sets={f"customValue[{name}]": text}
        )
        for name, text in values.items()
    )
    return [
        SetAttributes(id=change_id("set attributes of", now.name), edits=edits, values=values, **_common(now))
    ]


def _tags_back(change: SetTags, before: Vm, now: Vm) -> Iterable[Change]:
    """Give back the tags that the run removed, and remove those that it gave, as far as the VM shows them.

    If its tags are unknown all of the change is undone: repeated steps do no harm.
    """
    was, found = ((vm.detail or VmDetail()).tags for vm in (before, now))
    edits = []
    for category in dict.fromkeys(tag.category for tag in (*change.detach, *change.attach)):
        had = None if was is None else was.get(category, ())
        has = None if found is None else found.get(category, ())
        gave = (tag for tag in change.attach if tag.category == category and tag.name not in (had or ()))
        took = (tag for tag in change.detach if tag.category == category and (had is None or tag.name in had))
        detach = tuple(tag for tag in gave if has is None or tag.name in has)
        attach = tuple(tag for tag in took if tag.name not in (has or ()))
        if detach or attach:
            edits.append(tag_edit(category, has or (), had or (), detach, attach))
    if not edits:
        return ()
    subject = Subject(kind="vm", name=now.name, moid=now.moid)
    return [set_tags(VmRef(name=now.name, moid=now.moid), subject, edits, (), now.host_moid)]


def _off_again(change: PowerOnVm, before: Vm, now: Vm, run: FailedRun) -> Iterable[Change]:
    if not now.is_on:
        return ()
    if before.power_state is PowerState.SUSPENDED:
        return run.cannot(change, "it was suspended before and is now running")
    edit = Edit(key="power", before="on", after="off")
    return [
        PowerOffVm(
            id=change_id("power off", now.name), edits=(edit,), impact=Impact.POWER_CYCLE, **_common(now)
        )
    ]


def _on_again(change: PowerOffVm, before: Vm, now: Vm, run: FailedRun) -> Iterable[Change]:
    """Start a VM that ran before; if it was started again since, it is off by then for the undone changes."""
    if before.power_state is PowerState.SUSPENDED:
        return run.cannot(change, "it was suspended before and is now powered off", "power it on in vCenter")
    is_off_by_then = any(isinstance(one, PowerOnVm) and one.vm == change.vm for one in run.begun())
    if not before.is_on or (now.is_on and not is_off_by_then):
        return ()
    ran_on = now.model_copy(update={"host_moid": before.host_moid})
    edit = Edit(key="power", before="off", after="on")
    return [PowerOnVm(id=change_id("power on", now.name), edits=(edit,), **_common(ran_on))]


def _folder_back(change: MoveVmToFolder, before: Vm, now: Vm, run: FailedRun) -> Iterable[Change]:
    if now.folder_moid == before.folder_moid:
        return ()
    moids = (now.folder_moid, before.folder_moid)
    here, there = (run.after.folder_by_moid.get(moid or "") for moid in moids)
    if here is None or there is None or now.folder_moid != change.folder_moid:
        return run.cannot(change, "the VM is now in another folder", "move it in vCenter")
    return [to_folder(now, now.name, here, there)]


def _moved_back(change: RelocateVm, before: Vm, now: Vm, run: FailedRun) -> Iterable[Change]:
    source = run.after.host_by_moid.get(now.host_moid or "")
    target = run.after.host_by_moid.get(before.host_moid or "")
    was, found = before.detail or VmDetail(), now.detail or VmDetail()
    pool = _pool_back(change, was, found, run)
    stores = _datastore_back(change, own_datastores(before), own_datastores(now), run)
    if source is None or target is None or source.moid not in (change.destination.host_moid, target.moid):
        return run.cannot(change, "the VM is now on another host", "move it in vCenter")
    if source.moid == target.moid and pool is None and stores is None:
        return ()
    moved = relocation(
        now,
        now.name,
        source,
        target,
        pool=pool,
        datastore=stores,
        kept=owned_disks(now).others,
        is_running=change.is_running and now.is_on,
        stun_ms=change.stun_ms,
    )
    moved = moved.model_copy(update={"source_moid": source.moid, "windows": change.windows})
    home = run.before.cluster_of(target)
    if home is None or home == run.before.cluster_of(source):
        return [moved]
    return [moved, *overrides_again(before, home)]


def _pool_back(
    change: RelocateVm, was: VmDetail, found: VmDetail, run: FailedRun
) -> tuple[str, ResourcePool] | None:
    if change.destination.resource_pool_moid is None or was.resource_pool_moid == found.resource_pool_moid:
        return None
    pools = {pool.moid: pool for pool in run.after.resource_pools}
    before = pools.get(was.resource_pool_moid)
    here = pools.get(found.resource_pool_moid)
    return None if before is None else ("" if here is None else here.name, before)


def _datastore_back(
    change: RelocateVm, was: tuple[str, ...], found: tuple[str, ...], run: FailedRun
) -> tuple[str, Datastore] | None:
    if change.destination.datastore_moid is None or was == found:
        return None
    if len(was) != 1:
        run.cannot(change, "the VM's files were on several datastores", "migrate its disks in vCenter")
        return None
    stores = {store.moid: store for store in run.after.datastores}
    before = stores.get(was[0])
    here = stores.get(change.destination.datastore_moid)
    return None if before is None else ("" if here is None else here.name, before)


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
    "the storage policy is kept because the VM had none before",
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
        run.cannot(change, f"{device.was} cannot be restored", "run `apply`, or add the device in vCenter")
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
