"""Steps on VMs, rules, overrides, cordons and reservations: check, write, confirm.

VMs are created, changed and deleted, with their rules, groups and overrides. Cordons of hosts and GPUs, and
reservations of GPUs for a plan, are written or removed, and read back; nothing is disturbed. To wait for the
end of a guest's customization, vCenter is asked for its events of the VM.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    CreateVm,
    DestroyVm,
    MarkVm,
    MoveVmToFolder,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    RelocateVm,
    RemoveRule,
    RemoveVmGroup,
    RenameVm,
    SetAttributes,
    SetCordon,
    SetHostRule,
    SetOverrides,
    SetReservation,
    SetRule,
    SetTags,
    UpgradeVm,
)
from vgpu_cfg.changes.kinds.create_vm import CloneFrom
from vgpu_cfg.changes.kinds.vm_spec import NewDisk, VmSpec
from vgpu_cfg.errors import NotConfirmed, StalePlan, TaskFailed
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession, succeeded
from vgpu_cfg.execution.run.step import Step, StepResult, Waiting, wait, wait_for
from vgpu_cfg.execution.vms.moves import move_vm_to_folder, relocate_vm, rename_vm
from vgpu_cfg.execution.vms.owner_marks import marked_again, marked_as, marked_new
from vgpu_cfg.execution.vms.power import power_off_vm, power_on_vm
from vgpu_cfg.execution.vms.reconfigure import describe_spec, missing_from, reconfigure
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.own_items import CustomizationSeen
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, PowerState, Vm, VmDetail
from vgpu_cfg.model.reservations import KeptReservation
from vgpu_cfg.planning.estate.devices import listed_disks, owned_disks

VmStep = (
    UpgradeVm
    | ReconfigureVm
    | MarkVm
    | PowerOnVm
    | PowerOffVm
    | DestroyVm
    | RenameVm
    | MoveVmToFolder
    | RelocateVm
    | SetAttributes
    | SetTags
    | SetCordon
    | SetReservation
    | SetOverrides
    | SetRule
    | SetHostRule
    | RemoveRule
    | RemoveVmGroup
    | AwaitCustomization
)

_ONCE = "customization runs only once. Fix the problem, delete the VM, and plan again"
_TOLD = {
    "CustomizationNetworkSetupFailed": "the guest's network could not be set up",
    "CustomizationLinuxIdentityFailed": "the guest's host name could not be set",
    "CustomizationSysprepFailed": "sysprep failed in the guest",
}
"""The failures that events report, by their descriptions in the vSphere API reference."""


def make_vm_step(change: VmStep, session: RunSession) -> Step:
    """Return the generator that carries out a change to a VM, or to its settings elsewhere."""
    match change:
        case UpgradeVm():
            return upgrade_vm(change, session)
        case ReconfigureVm():
            return reconfigure_vm(change, session)
        case MarkVm():
            return mark_vm(change, session)
        case PowerOnVm():
            return power_on_vm(change, session)
        case PowerOffVm():
            return power_off_vm(change, session)
        case DestroyVm():
            return destroy_vm(change, session)
        case RenameVm():
            return rename_vm(change, session)
        case MoveVmToFolder():
            return move_vm_to_folder(change, session)
        case RelocateVm():
            return relocate_vm(change, session)
        case SetAttributes():
            return set_attributes(change, session)
        case SetTags():
            return set_tags(change, session)
        case SetCordon():
            return set_cordon(change, session)
        case SetReservation():
            return set_reservation(change, session)
        case SetOverrides():
            return set_overrides(change, session)
        case SetRule():
            return set_rule(change, session)
        case SetHostRule():
            return set_host_rule(change, session)
        case RemoveRule():
            return remove_rule(change, session)
        case RemoveVmGroup():
            return remove_vm_group(change, session)
        case AwaitCustomization():
            return await_customization(change, session)
        case _:
            assert_never(change)


def create_vm(change: CreateVm, session: RunSession, seed: Mapping[str, str]) -> Step:
    """Make a VM, then add the parts that the server dropped: an upgrade, one reconfigure, or nothing.

    Two tasks at most where the server dropped no hardware version; one where it dropped nothing. The guest's
    first-boot data (`seed`) go with the request; they may be secret, and are never compared or shown.
    """
    name = change.vm.name
    template = None
    if isinstance(change.source, CloneFrom) and change.source.template.moid:
        template = session.template(change.source.template.moid)
    before = (template.detail if template is not None else None) or VmDetail()
    made = session.find_asked_for(name)
    uuid, begun = session.asked.get(name) or (session.make_id(), session.clock.now())
    spec = marked_new(change.spec, name, uuid, begun, session, template)
    if made is None:
        request = change.model_copy(update={"spec": _with_settings(spec, seed)})
        session.asked[name] = uuid, begun
        moid = yield from _make(request, uuid, session)
    else:
        moid = session.made[name] = made.moid
    session.half_made[name] = "created, but not yet verified"
    vm, missing = yield from _compare(session, moid, name, spec, before)
    if vm.name != name:
        raise NotConfirmed(
            f"vCenter created {vm.name} instead of {name}",
            subject=name,
            remedy=f"check who created it; then {PLAN_AGAIN}",
        )
    if vm.instance_uuid.lower() != uuid:
        # The server gave another one: the mark is mended with whatever else is missing.
        spec = marked_new(change.spec, name, vm.instance_uuid, begun, session, template)
        missing = missing_from(vm, spec, before)
    version = missing.settings.get("hardware_version")
    if version is not None:
        session.half_made[name] = f"created, but without {describe_spec(missing)}"
        session.note(change.id, f"vCenter ignored {describe_spec(missing)}; setting it now")
        yield from session.run_task(
            lambda: session.writer.upgrade_vm(moid, int(version)),
            f"upgrade {name} to hardware version {version}",
            name,
        )
        vm, missing = yield from _compare(session, moid, name, spec, before)
    if not missing.is_empty:
        session.half_made[name] = f"created, but without {describe_spec(missing)}"
        session.note(change.id, f"vCenter ignored {describe_spec(missing)}; setting it now")
        # A server that dropped some of the extraConfig dropped all of it.
        wanted = _with_settings(missing, seed) if missing.extra_config else missing
        yield from reconfigure(vm, wanted, f"reconfigure {name}", session)
        vm, missing = yield from _compare(session, moid, name, spec, before)
    if not missing.is_empty:
        session.half_made[name] = f"created, but without {describe_spec(missing)}"
        yield from _check_shown(session, vm, spec, before, missing)
    disks = owned_disks(vm)
    shown = tuple(disk.uuid for disk in (*disks.own, *disks.others))
    if vm.mark is not None and not disks.is_certain and len(shown) == len(vm.mark.new_disks) and all(shown):
        yield from _record_disks(session, vm, shown)  # nobody had the time to attach another
    del session.half_made[name]
    return StepResult(vm_moid=vm.moid)


def _record_disks(session: RunSession, vm: Vm, uuids: tuple[str, ...] = ()) -> Waiting[None]:
    """Write the UUIDs of the disks that a request has added into the VM's owner mark, `uuids` where known.

    Unknown UUIDs are left to the next run.
    """
    disks = owned_disks(vm)
    found = uuids or (disks.uuids if disks.is_certain else ())
    if vm.mark is None or not vm.mark.new_disks or not found:
        return
    mark = vm.mark.model_copy(update={"disks": found, "new_disks": ()})
    version = vm.detail.change_version if vm.detail is not None else ""
    spec = VmSpec(extra_config={MARK_PLAN_KEY: mark.text}, change_version=version or None)
    yield from reconfigure(vm, spec, f"mark {vm.name}", session)
    now, missing = yield from _compare(session, vm.moid, vm.name, spec, vm.detail or VmDetail())
    yield from _check_shown(session, now, spec, vm.detail or VmDetail(), missing)


def _make(request: CreateVm, uuid: str, session: RunSession) -> Waiting[str]:
    """Have vCenter make a VM, and return its moid."""
    name = request.vm.name
    task = session.begin(lambda: session.writer.create_vm(request, uuid))
    session.half_made[name] = "vCenter had not finished creating it"
    update = yield from wait_for(task)
    if update.result_moid is None:
        session.half_made.pop(name, None)
        yield from session.check_not_made(update, name)
        succeeded(update, f"create {name}", name)
        raise NotConfirmed(
            (f"vCenter created {name} but did not report its location"), subject=name, remedy=PLAN_AGAIN
        )
    session.made[name] = update.result_moid
    succeeded(update, f"create {name}", name)
    return update.result_moid


def upgrade_vm(change: UpgradeVm, session: RunSession) -> Step:
    """Raise the hardware version, unless it is there already."""
    vm = yield from session.present(change.vm)
    if vm.detail is not None and (vm.detail.hardware_version or 0) >= change.hardware_version:
        return StepResult(vm_moid=vm.moid, is_needed=False, message="already has the hardware version")
    _check_off(vm, "its hardware version can be upgraded only while it is off")
    what = f"upgrade {vm.name} to hardware version {change.hardware_version}"
    yield from session.run_task(
        lambda: session.writer.upgrade_vm(vm.moid, change.hardware_version), what, vm.name
    )
    after = yield from session.read_back(vm.moid, vm.name)
    missing = missing_from(after, VmSpec(settings={"hardware_version": change.hardware_version}))
    if not missing.is_empty:
        raise _not_shown(vm.name, missing)
    return StepResult(vm_moid=vm.moid)


def reconfigure_vm(change: ReconfigureVm, session: RunSession) -> Step:
    """Reconfigure a VM that is unchanged since it was planned."""
    spec = change.spec
    vm = yield from session.present(
        change.vm, spec.extra_config, host_moid=change.host_moid, is_guarded=bool(spec.change_version)
    )
    before = vm.detail or VmDetail()
    spec = marked_again(spec, vm, session)
    own_version = session.versions.get(vm.moid)
    if own_version is not None:
        # This run changed the VM itself since the plan was made: vCenter must expect that, and no more.
        spec = spec.model_copy(update={"change_version": own_version})
    yield from reconfigure(vm, spec, f"reconfigure {vm.name}", session)
    now, missing = yield from _compare(session, vm.moid, vm.name, spec, before)
    if missing.extra_config.keys() - spec.extra_config.keys():
        # Keys that name a new device can be set only once vCenter has given the device its own.
        yield from reconfigure(now, missing, f"reconfigure {vm.name}", session)
        now, missing = yield from _compare(session, vm.moid, vm.name, spec, before)
    yield from _check_shown(session, vm, spec, before, missing)
    if any(isinstance(device, NewDisk) for device in change.spec.devices):
        yield from _record_disks(session, now)
    return StepResult(vm_moid=vm.moid)


def mark_vm(change: MarkVm, session: RunSession) -> Step:
    """Write or remove the mark of a VM that is unchanged: without an owner if it is imported, else own."""
    keys = change.spec.extra_config
    looked = session.unmarked(change.vm) if change.mark == "imported" else session.present(change.vm, keys)
    vm = yield from looked
    spec = marked_as(change, vm, session)
    yield from reconfigure(vm, spec, f"mark {vm.name}", session)
    before = vm.detail or VmDetail()
    _, missing = yield from _compare(session, vm.moid, vm.name, spec, before)
    yield from _check_shown(session, vm, spec, before, missing)
    return StepResult(vm_moid=vm.moid)


def destroy_vm(change: DestroyVm, session: RunSession) -> Step:
    """Delete a VM that is off and provably this plan's by its current state; one that has gone is done."""
    vm = yield from session.read_to_delete(change.vm, is_imported=change.is_imported)
    if vm is None:
        return StepResult(is_needed=False, message="no longer exists")
    if change.instance_uuid and vm.instance_uuid.lower() != change.instance_uuid.lower():
        raise StalePlan(
            f"{vm.name} was not deleted: its instance UUID is {vm.instance_uuid}, not {change.instance_uuid}",
            subject=vm.name,
            remedy="check which VM this is; " + PLAN_AGAIN,
        )
    _check_off(vm, "a running VM cannot be deleted")
    _check_disks(vm, change)
    yield from session.run_task(lambda: session.writer.destroy_vm(vm.moid), f"delete {vm.name}", vm.name)
    if (yield from session.read_vm(vm.moid)) is not None:
        raise NotConfirmed(f"{vm.name} still exists after its deletion", subject=vm.name, remedy=PLAN_AGAIN)
    return StepResult(vm_moid=vm.moid)


def _check_disks(vm: Vm, change: DestroyVm) -> None:
    """Raise StalePlan if a VM has a disk that is not among those that are to go with it."""
    there = vm.detail.disks if vm.detail is not None else None
    others = [disk for disk in there or () if disk.identity not in change.disks]
    if there is None or others:
        what = listed_disks(others) or "disks that cannot be read"
        raise StalePlan(
            f"{vm.name} was not deleted: it has {what}, which would also be deleted",
            subject=vm.name,
            remedy=PLAN_AGAIN,
        )


def set_attributes(change: SetAttributes, session: RunSession) -> Step:
    """Set custom attributes of a VM, and see that they show; no task is started."""
    vm = yield from session.present(change.vm)
    session.begin(lambda: session.writer.set_attributes(vm.moid, change.values))
    after = yield from session.read_back(vm.moid, vm.name)
    shown = after.detail.attributes if after.detail is not None else {}
    lacking = sorted(name for name, value in change.values.items() if shown.get(name, "") != value)
    if lacking:
        raise NotConfirmed(
            f"{vm.name} does not have the custom attributes {', '.join(lacking)}",
            subject=vm.name,
            remedy=f"check in vCenter who else is changing them on {vm.name}; then {PLAN_AGAIN}",
        )
    return StepResult(vm_moid=vm.moid)


def set_tags(change: SetTags, session: RunSession) -> Step:
    """Take tags from a VM and give it others, and see that it has them; no task is started."""
    vm = yield from session.present(change.vm)
    detach, attach = ([tag.id for tag in tags] for tags in (change.detach, change.attach))
    session.begin(lambda: session.writer.set_tags(vm.moid, detach, attach))
    found = session.reader.read_attached_tags([vm.moid]).get(vm.moid, frozenset())
    wrong = [f"is missing {tag}" for tag in change.attach if tag.id not in found]
    wrong += [f"still has {tag}" for tag in change.detach if tag.id in found]
    if wrong:
        raise NotConfirmed(
            f"{vm.name} does not have the requested tags: it {', '.join(wrong)}",
            subject=vm.name,
            remedy=f"check in vCenter who else is changing them on {vm.name}; then {PLAN_AGAIN}",
        )
    return StepResult(vm_moid=vm.moid)


def set_overrides(change: SetOverrides, session: RunSession) -> Step:
    """Set a cluster's overrides for single VMs, some of which this run may have made.

    No reading of a cluster alone exists; the plan that follows a run reads them back.
    """
    wanted = {session.moid_of(one.vm): one.settings for one in change.overrides}
    yield from session.run_task(
        lambda: session.writer.set_overrides(change.cluster_moid, wanted),
        f"set VM overrides in {change.subject.name}",
        change.subject.name,
    )
    return StepResult()


def set_rule(change: SetRule, session: RunSession) -> Step:
    """Create or edit a rule between VMs, some of which this run may have made.

    No reading of rules alone exists; the plan that follows a run reads them back.
    """
    moids = [session.moid_of(vm) for vm in change.vms]
    yield from session.run_task(
        lambda: session.writer.set_rule(change, moids), f"set rule {change.rule_name}", change.subject.name
    )
    return StepResult()


def set_host_rule(change: SetHostRule, session: RunSession) -> Step:
    """Create or edit a VM group and its rule to a host group; the plan that follows reads them back."""
    moids = [session.moid_of(vm) for vm in change.vms]
    yield from session.run_task(
        lambda: session.writer.set_host_rule(change, moids),
        f"set rule {change.rule_name}",
        change.subject.name,
    )
    return StepResult()


def remove_rule(change: RemoveRule, session: RunSession) -> Step:
    """Remove a rule that is still there and holds no VM of another plan."""
    members = session.reader.read_ties(change.cluster_moid).members_of_rule(change.rule_key, change.rule_name)
    if members is None:
        return StepResult(is_needed=False, message="no longer exists, or its number has changed")
    session.check_members(members, f"rule {change.rule_name}")
    yield from session.run_task(
        lambda: session.writer.remove_rule(change), f"remove rule {change.rule_name}", change.subject.name
    )
    return StepResult()


def remove_vm_group(change: RemoveVmGroup, session: RunSession) -> Step:
    """Remove a VM group that is still there and holds no VM of another plan."""
    members = session.reader.read_ties(change.cluster_moid).members_of_group(change.group_name)
    if members is None:
        return StepResult(is_needed=False, message="no longer exists")
    session.check_members(members, f"VM group {change.group_name}")
    yield from session.run_task(
        lambda: session.writer.remove_vm_group(change),
        f"remove VM group {change.group_name}",
        change.subject.name,
    )
    return StepResult()


def _compare(
    session: RunSession, moid: str, name: str, spec: VmSpec, before: VmDetail
) -> Waiting[tuple[Vm, VmSpec]]:
    vm = yield from session.read_back(moid, name, spec.extra_config)
    if vm.detail is None:
        # Nothing would seem to be there, and every device would be added a second time.
        raise NotConfirmed(
            f"cannot read {vm.name}'s details after the task",
            subject=vm.name,
            remedy=(
                "make sure that its host is connected and that the account has read access to the VM; then "
            )
            + PLAN_AGAIN,
        )
    return vm, missing_from(vm, spec, before)


def _check_shown(
    session: RunSession, vm: Vm, spec: VmSpec, before: VmDetail, missing: VmSpec
) -> Waiting[None]:
    """Raise NotConfirmed if a VM does not show the request.

    It is read once more for that: the reading that came with the end of its task may be older than that end.
    """
    if not missing.is_empty:
        _, missing = yield from _compare(session, vm.moid, vm.name, spec, before)
    if not missing.is_empty:
        raise _not_shown(vm.name, missing)


def _with_settings(spec: VmSpec, settings: Mapping[str, str]) -> VmSpec:
    return spec.model_copy(update={"extra_config": {**spec.extra_config, **settings}}) if settings else spec


def _check_off(vm: Vm, reason: str) -> None:
    if vm.power_state is not PowerState.OFF:
        raise StalePlan(f"{vm.name} is {vm.power_state}: {reason}", subject=vm.name, remedy=PLAN_AGAIN)


def _not_shown(name: str, missing: VmSpec) -> NotConfirmed:
    return NotConfirmed(
        f"{name} does not have the requested settings: {describe_spec(missing)}",
        subject=name,
        remedy=f"check in vCenter who else is changing {name}; then {PLAN_AGAIN}",
    )


def set_cordon(change: SetCordon, session: RunSession) -> Step:
    """Write the attributes of a host that hold cordons, and see that they show; no task is started."""
    yield from ()
    found = _cordons(change, session)
    lacking = [name for name, text in change.values.items() if _text(found, name) != text]
    if not lacking:
        return StepResult(is_needed=False, message="already done")
    taken = [name for name in lacking if name in found and found[name].words != _seen(change, name)]
    if taken:
        raise StalePlan(
            f"another user has since cordoned part of {change.host.name}: {found[taken[0]].words}",
            subject=change.host.name,
            remedy=PLAN_AGAIN,
        )
    session.begin(lambda: session.writer.set_host_attributes(change.host.moid, change.values))
    shown = _cordons(change, session)
    lacking = sorted(name for name, text in change.values.items() if _text(shown, name) != text)
    if lacking:
        raise NotConfirmed(
            f"{change.host.name} does not have the new values for {', '.join(lacking)}",
            subject=change.host.name,
            remedy=f"check {change.host.name}'s custom attributes in vCenter; then {PLAN_AGAIN}",
        )
    return StepResult()


def _seen(change: SetCordon, name: str) -> str | None:
    """Return the text of the cordon that the plan saw in an attribute and reported; None if it saw none."""
    told = (edit.before for edit in change.edits if f"customValue[{name}]" in edit.sets)
    return next(told, None)


def _text(found: Mapping[str, Cordon], name: str) -> str:
    return found[name].text if name in found else ""


def _cordons(change: SetCordon, session: RunSession) -> dict[str, Cordon]:
    hosts = session.reader.read_hosts([change.host.moid])
    if not hosts:
        raise StalePlan(
            (f"the host {change.host.name} no longer exists"), subject=change.host.name, remedy=PLAN_AGAIN
        )
    return {cordon.attribute: cordon for cordon in hosts[0].cordons}


def set_reservation(change: SetReservation, session: RunSession) -> Step:
    """Write the plan's reservation, and see that it shows; no task is started."""
    yield from ()
    kept = _kept(change, session)
    if (kept.reservation if kept is not None else None) == change.reservation:
        return StepResult(is_needed=False, message="already done")
    is_written = session.begin(lambda: session.writer.set_reservation(change.reservation, change.alarm))
    shown = _kept(change, session)
    if (shown.reservation if shown is not None else None) == change.reservation:
        return StepResult()
    if not is_written:
        raise StalePlan(
            "another user has since changed this plan's reservation",
            subject=change.subject.name,
            remedy=PLAN_AGAIN,
        )
    raise NotConfirmed(
        "the reservation in vCenter differs from the requested one",
        subject=change.subject.name,
        remedy=f"check the alarm definitions in vCenter; then {PLAN_AGAIN}",
    )


def _kept(change: SetReservation, session: RunSession) -> KeptReservation | None:
    locks = session.reader.read_locks()
    if locks is None:
        return None
    found = (one for one in locks.reserved if one.moid == change.alarm)
    by_name = change.reservation and locks.reservations.named(change.reservation.alarm_name)
    return next(found, None) or by_name or None


def await_customization(change: AwaitCustomization, session: RunSession) -> Step:
    """Ask until the customisation has ended. Raises TaskFailed where it failed, NotConfirmed out of time."""
    vm = yield from session.present(change.vm)
    deadline = session.now() + change.wait_seconds
    is_told = False
    while True:
        seen = session.reader.read_customization(vm.moid)
        if seen.state == "succeeded":
            return StepResult(vm_moid=vm.moid)
        if seen.state == "failed":
            raise _failure(vm.name, seen)
        if seen.state == "running" and not is_told:
            session.note(change.id, "the guest is being customized")
            is_told = True
        if session.now() >= deadline:
            raise _no_end(vm.name, change.wait_seconds, seen)
        yield from wait(session.options.guest_poll_seconds)
        session.check_going_on()


def _failure(name: str, seen: CustomizationSeen) -> TaskFailed:
    where = f"see {seen.log} in the guest; " if seen.log else ""
    return TaskFailed(
        f"customize {name}: {seen.message or seen.event}",
        subject=name,
        cause=_TOLD.get(seen.event, ""),
        remedy=f"{where}{_ONCE}",
    )


def _no_end(name: str, seconds: int, seen: CustomizationSeen) -> NotConfirmed:
    minutes = f"{seconds / 60:.0f} min"
    if seen.state == "running":
        remedy = f"see {seen.log or 'the VMware Tools log'} in the guest; when it is complete, {PLAN_AGAIN}"
        return NotConfirmed(
            f"{name}: customization did not complete within {minutes}", subject=name, remedy=remedy
        )
    return NotConfirmed(
        f"{name}: customization did not start within {minutes}",
        subject=name,
        remedy=f"make sure that VMware Tools is running in the guest and supports customization; {_ONCE}",
    )
