"""Ownership in an estate: the plan's own VMs, under the plan file's names, and its reservation.

A VM is owned when its owner mark shows it: the mark names the plan by its id, and the VM by its instance
UUID. A clone inherits the mark of its source, with an instance UUID that is not its own. Later names and
folders of the VM change nothing about that; they decide only if the mark holds no id, as those of version
0.1.0. VMs that are not owned are never touched. A name of `moved` in a mark means the one that the plan file
has now.

An inventory comes here `as_named`: the plan's VMs are under the names that the plan file has for them.

Belief: extra-config-is-copied, instance-uuid-is-unique, restored-vm-keeps-instance-uuid,
identity-survives-rename-and-move.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from shlex import join, quote

from vgpu_cfg.changes.change import Change, SetReservation
from vgpu_cfg.changes.values import Edit, Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Folder, Inventory
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, OwnerMark, Vm
from vgpu_cfg.model.reservations import KeptReservation, Reservation
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.estate.devices import all_devices, as_imported_disks
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


@dataclass(slots=True)
class Ownership:
    """The names by ownership: `existing` are owned VMs by name, `blocked` names must not be made.

    `orphans` are owned VMs that the plan file no longer names.
    """

    existing: dict[str, Vm] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    orphans: list[Vm] = field(default_factory=list)


def is_marked(vm: Vm, plan: PlanIdentity) -> bool:
    """Whether a VM's mark names this plan and the VM itself, by its name where it holds no id."""
    mark = vm.mark
    return vm.is_of(plan) and mark is not None and bool(mark.id or vm.called or mark.vm == vm.name)


def marked_moids(plan: PlanIdentity, observed: Inventory) -> frozenset[str]:
    """Return the VMs whose marks say that they are this plan's, wherever they are, by moid."""
    return frozenset(vm.moid for vm in observed.vms_marked(plan) if is_marked(vm, plan))


def others_moids(plan: PlanIdentity, observed: Inventory) -> frozenset[str]:
    """Return the VMs whose marks say that they are another plan's, or that they are copies, by moid."""
    return frozenset(vm.moid for vm in observed.vms if vm.mark is not None and not vm.is_of(plan))


def assess_ownership(
    desired: DesiredPlan, observed: Inventory, folders: Mapping[str, Folder | None], findings: Findings
) -> Ownership:
    """Find the plan's own VMs; `folders` gives each desired VM's folder by VM name."""
    result = Ownership()
    _refuse_namesakes(desired, observed, findings)
    by_place = {(vm.folder_moid, (vm.called or vm.name).casefold()): vm for vm in observed.vms}
    marked = sorted(observed.vms_marked(desired.identity), key=lambda vm: (vm.name, vm.moid))
    claiming: dict[str, list[Vm]] = {}
    for vm in marked:
        if not vm.is_copy:
            name = vm.mark.vm if vm.mark else ""
            claiming.setdefault(desired.moved.get(name, name), []).append(vm)
    for wanted in desired.vms:
        folder = folders.get(wanted.name)
        if folder is None:
            result.blocked.add(wanted.name)
            continue
        claimants = claiming.get(wanted.name, [])
        own = [vm for vm in claimants if vm.name == wanted.name and _is_owned(vm, folder, desired)]
        here = [vm for vm in own if vm.folder_moid == folder.moid]
        found = by_place.get((folder.moid, wanted.name.casefold()))
        if len(here or own) == 1:
            result.existing[wanted.name] = (here or own)[0]
        elif found is not None and found not in claimants:
            _refuse_stranger(desired, wanted, found, findings)
            result.blocked.add(wanted.name)
        elif claimants:
            _refuse_unclear(wanted, folder, claimants, observed, findings)
            result.blocked.add(wanted.name)
    _assess_rest(desired, marked, folders.values(), result, findings)
    return result


def _refuse_stranger(desired: DesiredPlan, wanted: DesiredVm, found: Vm, findings: Findings) -> None:
    if found.mark is None:
        what = "a template" if found.is_template else "a VM"
        message = f"{what} with this name already exists in the folder and has no owner mark"
        remedy = "choose another name or folder for the plan's VM"
        if not found.is_template:
            remedy += ", or bring it under management with `vgpu-cfg import`"
        findings.refuse_vm(Code.NOT_OURS, wanted, message, remedy)
        return
    if found.is_copy and found.mark.is_named(desired.identity):
        message = (
            "the VM with this name is a copy: its owner mark was written for instance UUID "
            f"{found.mark.instance_uuid}, but the VM has {found.instance_uuid or 'none'}"
        )
        remedy = (
            "rename or move the copy so that the plan can create its VM. If it is the plan's VM "
            "restored from a "
            f"backup: {_marked(found, f'{MARK_PLAN_KEY}={desired.name}')}; `apply` then takes ownership"
        )
        findings.refuse_vm(Code.MARK_DISAGREES, wanted, message, remedy)
        return
    if _is_namesake(found, desired):
        return  # its plan is told of as a whole
    message = (
        "the folder contains a VM with this name, but its owner mark is "
        f"{found.mark.plan}/{found.mark.vm}, not "
        f"{desired.name}/{wanted.name}"
    )
    remedy = "choose another name for the plan's VM, or contact the owner of the existing VM"
    findings.refuse_vm(Code.MARK_DISAGREES, wanted, message, remedy)


def _is_namesake(vm: Vm, desired: DesiredPlan) -> bool:
    """Whether a VM is of a plan with this one's name and another id."""
    mark = vm.mark
    if mark is None or vm.is_copy or vm.is_template:
        return False
    return mark.plan == desired.name and mark.id not in ("", desired.id)


def _refuse_namesakes(desired: DesiredPlan, observed: Inventory, findings: Findings) -> None:
    """Refuse a plan whose name is on VMs of a plan with another id."""
    found: dict[str, list[Vm]] = {}
    for vm in observed.vms:
        if vm.mark is not None and _is_namesake(vm, desired):
            found.setdefault(vm.mark.id, []).append(vm)
    for plan_id, vms in sorted(found.items()):
        marks = [vm.mark for vm in vms if vm.mark is not None]
        newest = max(marks, key=lambda mark: (mark.made_at is not None, mark.made_at or observed.read_at))
        names = listed(sorted((vm.name for vm in vms), key=as_counted))
        when = "" if newest.made_at is None else f" at {newest.made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
        is_kept = bool(desired.id) and not desired.id_file
        own = f"this plan's ID is {desired.id}" if is_kept else "this plan file has no ID"
        message = (
            f"{names} {'has' if len(vms) == 1 else 'have'} this plan's name and the ID {plan_id}, "
            f"but {own}; {newest.vm} was marked{when} by {newest.made_by or 'unknown'}"
        )
        remedy = (
            f"if this is the same plan, add `id: {plan_id}` to the plan file, or copy its .id file here; if "
            "this is a different plan, change its `name`"
        )
        findings.add(Code.NAMESAKE, Subject(kind="plan", name=desired.name), message, remedy)


def _is_owned(vm: Vm, folder: Folder, desired: DesiredPlan) -> bool:
    """Whether a VM is the plan's under its name in the plan file; without an id its folder must agree."""
    has_id = vm.mark is not None and bool(vm.mark.id)
    return is_marked(vm, desired.identity) and (has_id or vm.folder_moid == folder.moid)


def _refuse_unclear(
    wanted: DesiredVm, folder: Folder, found: Sequence[Vm], observed: Inventory, findings: Findings
) -> None:
    """Refuse to make a VM whose mark is on another, or on several, which must be separated manually."""
    names = {one.moid: one.inventory_path or one.name for one in observed.folders}
    first = found[0]
    where = names.get(first.folder_moid or "", "another folder")
    called = first.called or first.name
    message = f"the VM with the owner mark for this name is now named {called!r} and is in {where}"
    if first.is_template:
        message = f"the VM with the owner mark for this name is now a template: {called!r} in {where}"
    elif len(found) > 1:
        message = (
            f"several VMs have the owner mark for this name: {listed(vm.called or vm.name for vm in found)}"
        )
    remedy = (
        f"rename or move it back to {wanted.name} in {folder.inventory_path or folder.name}, or remove its "
        f"owner mark to stop managing the VM: {unmarked(first)}"
    )
    if len(found) > 1:
        remedy = f"remove the owner mark from all but one, for example {unmarked(found[-1])}"
    elif first.is_template:
        remedy = f"convert the template back to a VM, or remove its owner mark: {unmarked(first)}"
    findings.refuse_vm(Code.MARK_DISAGREES, wanted, message, remedy)


def _assess_rest(
    desired: DesiredPlan,
    marked: Iterable[Vm],
    folders: Iterable[Folder | None],
    result: Ownership,
    findings: Findings,
) -> None:
    """Sort the marked VMs that no line of the plan file means into orphans and copies."""
    own = {vm.moid for vm in result.existing.values()}
    wanted = {vm.name for vm in desired.vms}
    places = {folder.moid for folder in folders if folder is not None}
    for vm in marked:
        mark = vm.mark
        if vm.moid in own or mark is None:
            continue
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        after = desired.moved.get(mark.vm)
        if after in result.existing and is_marked(vm, desired.identity):
            message = f"`moved` renames it to {after}, but {after} also exists, so the VM is not changed"
            remedy = "remove this item from `moved`; use `--delete` for VMs that are not in the plan file"
            findings.add(Code.MOVED_AND_THERE, subject, message, remedy)
        is_left_out = is_marked(vm, desired.identity) and not wanted & {vm.name, mark.vm}
        if is_left_out and vm.folder_moid in places:
            result.orphans.append(vm)
        elif desired.moved.get(mark.vm, mark.vm) in result.blocked:
            continue
        elif is_left_out:
            message = "the VM and its folder were removed from the plan file, so the VM is not changed"
            remedy = (
                "add the VM with this folder to the plan file again, then run `destroy` with --only "
                f"{quote(vm.name)}"
            )
            findings.add(Code.ORPHAN_ELSEWHERE, subject, message, remedy)
        else:
            message = (
                f"has the owner mark {mark.plan}/{mark.vm}, but is not this plan's VM, so it is not changed"
            )
            if vm.is_copy:
                message += (
                    f": the owner mark was written for instance UUID {mark.instance_uuid}, so this is a copy"
                )
            remedy = f"if it is a clone, remove its owner mark: {unmarked(vm)}"
            findings.add(Code.MARK_COPIED, subject, message, remedy)


def unmarked(vm: Vm) -> str:
    """Return the command that removes a VM's owner mark."""
    return _marked(vm, f"{MARK_PLAN_KEY}=", f"{MARK_VM_KEY}=")


def _marked(vm: Vm, *pairs: str) -> str:
    options = (word for pair in pairs for word in ("-e", pair))
    return f"`{join(('govc', 'vm.change', '-vm', vm.inventory_path or vm.name, *options))}`"


def refuse_to_delete(vm: Vm, findings: Findings, delete: Collection[str]) -> None:
    """Refuse to delete a VM whose mark holds no id, and one that was imported and is not named for it."""
    subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
    if vm.mark is not None and vm.mark.is_imported and not named_in(vm, delete):
        message = "this imported VM is deleted only if you specify its name"
        remedy = f"to delete it, add --delete={quote(vm.name)}"
        findings.add(Code.IMPORTED_MAY_NOT_GO, subject, message, remedy)
    if vm.mark is not None and vm.mark.id:
        return
    message = "its owner mark contains no plan ID, and vgpu-cfg does not delete VMs by name alone"
    remedy = "run `apply` to complete the marks of VMs in the plan file, then delete the VM"
    findings.add(Code.MARK_WITHOUT_ID, subject, message, remedy)


def named_in(vm: Vm, delete: Collection[str]) -> bool:
    """Whether `--delete` names a VM, by its exact name or inventory path."""
    return vm.name in delete or vm.inventory_path in delete


def own_vms(desired: DesiredPlan, observed: Inventory) -> dict[str, Vm]:
    """Return the VMs of a plan that exist, by their names in the plan file; a clone is none of them."""
    return own_and_taken(desired, observed)[0]


def own_and_taken(desired: DesiredPlan, observed: Inventory) -> tuple[dict[str, Vm], frozenset[str]]:
    """Return the VMs of a plan that exist, and the names in whose places VMs are that are not clearly its."""
    observed = as_named(desired, observed)
    site = Site(desired, observed, Findings())
    folders = {vm.name: site.folder_of(vm) for vm in desired.vms}
    found = assess_ownership(desired, observed, folders, Findings())
    return found.existing, frozenset(name for name in found.blocked if folders[name] is not None)


def as_imported(observed: Inventory, moids: Collection[str], plan: PlanIdentity) -> Inventory:
    """Return an estate as it will be once VMs are taken in by a plan; those that it has stay as they are."""
    vms = (_with_mark(vm, plan) if vm.moid in moids else vm for vm in observed.vms)
    return observed.model_copy(update={"vms": tuple(vms)})


def _with_mark(vm: Vm, plan: PlanIdentity) -> Vm:
    if vm.is_of(plan) and vm.mark is not None and vm.mark.id:
        return vm
    uuid = vm.instance_uuid.lower()
    disks = as_imported_disks(vm)
    record = disks.to_record if disks is not None else None
    detail = vm.detail
    held = all_devices(detail) if detail is not None else {}
    mark = OwnerMark(
        plan=plan.name, vm=vm.name, id=plan.id, instance_uuid=uuid, is_imported=True, disks=record, **held
    )
    if detail is not None:
        detail = detail.model_copy(update={"extra_config": {**detail.extra_config, **mark.pairs}})
    return vm.model_copy(update={"mark": mark, "detail": detail})


def as_named(desired: DesiredPlan, observed: Inventory) -> Inventory:
    """Return the inventory with the plan's own VMs under their names in the plan file.

    `called` of such a VM is its name in vCenter. If another VM of the plan has name and mark, that is the
    one. A mark without an id proves nothing against a name: both must be the plan's.
    """
    names = {vm.name for vm in desired.vms}
    own = [vm for vm in observed.vms if vm.is_of(desired.identity)]
    taken = {vm.name for vm in own if vm.mark is not None and vm.mark.vm == vm.name}
    changed: dict[str, Vm] = {}
    for vm in own:
        name = _name_of(vm, desired)
        if name in names and name not in taken and name != vm.name:
            changed[vm.moid] = vm.model_copy(update={"name": name, "called": vm.name})
    if not changed:
        return observed
    vms = tuple(changed.get(vm.moid, vm) for vm in observed.vms)
    return observed.model_copy(update={"vms": vms})


def _name_of(vm: Vm, desired: DesiredPlan) -> str:
    mark = vm.mark
    if mark is None or not (mark.id or mark.vm == vm.name):
        return vm.name
    return desired.moved.get(mark.vm, mark.vm)


ALARM = "alarm description"
"""The leaf of the request that holds a reservation."""


def change_of_reservation(
    desired: DesiredPlan,
    own: KeptReservation | None,
    wanted: Reservation | None,
    needs: Iterable[Change] = (),
) -> SetReservation:
    """Return the change from a plan's present reservation to the wanted one, None for nothing."""
    edit = edit_of_reservation(own.reservation if own is not None else None, wanted)
    return SetReservation(
        id="release the reservation" if wanted is None else "reserve GPUs",
        subject=Subject(kind="plan", name=desired.name),
        edits=(edit,),
        needs=tuple(change.id for change in needs),
        reservation=wanted,
        alarm=own.moid if own is not None else "",
    )


def edit_of_reservation(before: Reservation | None, after: Reservation | None) -> Edit:
    """Return the reservation before and after, None for nothing."""
    return Edit(
        key="reserved",
        before=before.words if before is not None else None,
        after=after.words if after is not None else None,
        sets={ALARM: after.text} if after is not None else {},
    )


def give_back(desired: DesiredPlan, observed: Inventory, needs: Iterable[Change]) -> tuple[Change, ...]:
    """Return the change that removes a plan's reservation, if it has one."""
    kept = observed.reservations
    own = kept.of_plan(desired.identity) if kept is not None else None
    return (change_of_reservation(desired, own, None, needs),) if own is not None else ()
