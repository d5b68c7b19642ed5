"""The rollback of each change of a VM, by the readings of the VM before the run and after it."""

from __future__ import annotations

from collections.abc import Iterable
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
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.observed.inventory import Datastore, ResourcePool
from vgpu_cfg.model.observed.vm import PowerState, Vm, VmDetail
from vgpu_cfg.planning.estate.disks import own_datastores, owned_disks
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.rollback.run import FailedRun
from vgpu_cfg.planning.rollback.undo_reconfigure import reconfigured_back
from vgpu_cfg.planning.rollback.undo_sites import overrides_again
from vgpu_cfg.planning.vms.destroy import plan_removal
from vgpu_cfg.planning.vms.new_vms import change_id, set_tags
from vgpu_cfg.planning.vms.relocate import relocation, rename, to_folder
from vgpu_cfg.planning.vms.tags import tag_edit

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
    if change.mark == "own":
        return run.leave(change, "completed owner marks are not reverted")
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
