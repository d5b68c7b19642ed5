"""The plan that removes the objects that a plan file names and owns: its VMs and their rules only.

Belief: destroy-keeps-files-of-other-vms, deleted-vm-drops-its-tags, deleted-vm-leaves-its-group.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from shlex import quote
from typing import Any

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, DestroyVm, PowerOffVm, ReconfigureVm
from vgpu_cfg.changes.kinds.vm_spec import RemoveDevice
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import PowerState, VirtualDisk, Vm
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.estate.devices import (
    Layout,
    device_text,
    disk_text,
    is_in_folder,
    listed_disks,
    owned_disks,
    recorded_others,
)
from vgpu_cfg.planning.estate.down_hosts import bring_all_back, can_go
from vgpu_cfg.planning.estate.named import how_to_select, meant_at
from vgpu_cfg.planning.estate.ownership import (
    Ownership,
    as_named,
    assess_ownership,
    give_back,
    marked_moids,
    named_in,
    others_moids,
    refuse_to_delete,
    unmarked,
)
from vgpu_cfg.planning.estate.protection import (
    Protection,
    orphans_to_delete,
    refuse_many_deletions,
    report_orphans,
)
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.new_vms import change_id, plan_about_vms
from vgpu_cfg.planning.vms.rules import remove_host_rules, remove_rules
from vgpu_cfg.planning.vms.settings.edits import VmEdit, device_edit, joined, shown
from vgpu_cfg.planning.vms.settings.setting import Topic

_LISTED = "still in the plan file: the next apply makes it again"


def plan_removal(
    vm: Vm,
    findings: Findings,
    *,
    layout: Layout | None = None,
    delete: Collection[str] = (),
    allow: Collection[Approval] = (),
    note: str = "",
) -> list[Change]:
    """List the changes that delete a VM: off first, without other disks, then away with its own.

    `layout` is as in `owned_disks`, `delete` names other disks that are deleted too, `note` is shown with it.
    """
    subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
    common: dict[str, Any] = {"subject": subject, "host_moid": vm.host_moid}
    common["vm"] = VmRef(name=vm.name, moid=vm.moid)
    changes: list[Change] = []
    if vm.power_state is not PowerState.OFF:
        edit = Edit(key="power", before="on" if vm.is_on else "suspended", after="off")
        changes.append(
            PowerOffVm(id=change_id("power off", vm.name), edits=(edit,), impact=Impact.POWER_CYCLE, **common)
        )
    disks = owned_disks(vm, layout)
    # Not every VM that may share a disk is read closely enough to tell.
    doomed = [disk for disk in disks.others if disk.file in delete and not disk.is_shared]
    spared = [disk for disk in disks.others if disk not in doomed]
    if spared:
        _report_spared(vm, spared, findings)
        if Approval.IRREVERSIBLE not in allow:
            _refuse_in_folder(vm, spared, (*disks.own, *doomed), findings)
        edits = [_detachment(disk) for disk in spared]
        version = vm.detail.change_version if vm.detail is not None else ""
        changes.append(
            ReconfigureVm(
                id=change_id("detach disks from", vm.name),
                edits=shown(edits),
                needs=tuple(change.id for change in changes),
                spec=joined(edits).model_copy(update={"change_version": version or None}),
                **common,
            )
        )
    media = vm.detail.media if vm.detail is not None else ()
    has_snapshots = vm.detail is not None and vm.detail.snapshot_moid is not None
    changes.append(
        DestroyVm(
            id=change_id("delete", vm.name),
            edits=(
                Edit(key="vm", before=vm.inventory_path or vm.name, note=note),
                *(
                    Edit(key="disk", before=disk_text(disk), note="not created by the plan")
                    for disk in doomed
                ),
                *[Edit(key="snapshots", before="all", note="including all disks that they depend on")]
                * has_snapshots,
                *(Edit(key="device", before=name, note="attached to the VM") for name in media),
                *(
                    Edit(key="device", before=device_text(one), note="not created by the plan")
                    for one in recorded_others(vm)
                ),
            ),
            needs=tuple(change.id for change in changes),
            is_imported=vm.mark is not None and vm.mark.is_imported,
            disks=tuple(disk.identity for disk in (*disks.own, *doomed)),
            others=tuple(disk.file for disk in doomed),
            **common,
        )
    )
    return changes


def _detachment(disk: VirtualDisk) -> VmEdit:
    edit = Edit(key="disk", before=disk_text(disk), note="detached, file kept")
    removal = RemoveDevice(key=disk.key, was=f"{disk_text(disk)}, and keep its files", is_disk=True)
    return device_edit(Topic.DISK, edit, [removal])


def _report_spared(vm: Vm, disks: Sequence[VirtualDisk], findings: Findings) -> None:
    """Report a VM's other disks, and refuse if a snapshot of it would take them along."""
    subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
    named = ", ".join(map(disk_text, disks))
    if vm.detail is not None and vm.detail.snapshot_moid is not None:
        message = (
            "the VM has snapshots, so vCenter would also delete the snapshots' disks that the plan did not "
            f"create: {named}"
        )
        remedy = "delete its snapshots in vCenter, or specify each of these disks: "
        remedy += " ".join(f"--delete {quote(disk.file)}" for disk in disks)
        findings.add(Code.DISK_IN_SNAPSHOT, subject, message, remedy)
        return
    message = f"disks not created by the plan are detached and kept when the VM is deleted: {named}"
    remedy = f"to delete such a disk with the VM, add: --delete {quote(disks[0].file)}"
    findings.add(Code.DISKS_OF_OTHERS, subject, message, remedy)


def _refuse_in_folder(
    vm: Vm, spared: Sequence[VirtualDisk], others: Sequence[VirtualDisk], findings: Findings
) -> None:
    """Refuse to delete a VM whose folder has files of other disks: vCenter may delete them with it."""
    # Belief: destroy-keeps-detached-files.
    inside = [disk for disk in spared if is_in_folder(disk, vm, others)]
    if inside:
        message = (
            "the plan did not create these disks, and their files are in the VM's folder, which "
            f"vCenter may delete entirely: {listed_disks(inside)}"
        )
        remedy = (
            "move them to another folder in the vSphere Client; or delete them: --delete "
            f"{quote(inside[0].file)}; or add `allow: [{Approval.IRREVERSIBLE}]` to the plan file"
        )
        findings.add(Code.DISK_IN_SNAPSHOT, Subject(kind="vm", name=vm.name, moid=vm.moid), message, remedy)


def refuse_disks(
    desired: DesiredPlan,
    observed: Inventory,
    changes: Sequence[Change],
    names: Sequence[str],
    findings: Findings,
) -> None:
    """Refuse each name of a disk that no deleted VM has from others, or that another VM has, too."""
    going = {file: change.vm.moid for change in of_kind(changes, DestroyVm) for file in change.others}
    subject = Subject(kind="plan", name=desired.name)
    for name in dict.fromkeys(names):
        holders = [
            vm.name
            for vm in observed.vms
            if vm.moid != going.get(name) and vm.detail is not None
            if any(disk.file == name for disk in vm.detail.disks)
        ]
        if name not in going:
            message = (
                f"--delete {name}: no VM to be deleted has this unmanaged disk, or several VMs share it "
                "(globs are not supported)"
            )
            remedy = (
                "VG269 lists the disks that do not belong to the plan; the plan's own disks are deleted "
                "with the VM"
            )
            findings.add(Code.DISK_NOT_TO_DELETE, subject, message, remedy)
        elif holders:
            message = f"--delete {name}: {listed(holders)} also uses this disk"
            findings.add(
                Code.DISK_NOT_TO_DELETE, subject, message, "omit this --delete; the disk is then detached"
            )


def make_destroy_plan(desired: DesiredPlan, observed: Inventory, options: PlanOptions | None = None) -> Plan:
    """Plan the removal of the VMs that the plan file names and that are truly this plan's.

    Of VMs of the plan that the file does not name only those go that `delete` names. A VM with `lock: true`
    or under `protect` is an error; one that only looks like the plan's is left alone with a warning. Rules
    and groups stay as long as they hold a VM that stays.
    """
    observed = as_named(desired, observed)
    chosen = meant_at(options or PlanOptions(), desired, observed)
    findings, silent = Findings.for_plan(desired, is_leaving=True), Findings()
    site, quiet_site = Site(desired, observed, findings), Site(desired, observed, Findings())
    folders = {vm.name: quiet_site.folder_of(vm) for vm in desired.vms}
    owned = assess_ownership(desired, observed, folders, silent)
    for found in silent.diagnostics():
        if found.code == Code.NAMESAKE:
            findings.add(Code.NAMESAKE, found.subject, found.message, found.remedy)
        elif found.code in (Code.MARK_DISAGREES, Code.MARK_COPIED, Code.ORPHAN_ELSEWHERE, Code.NOT_OURS):
            findings.add(Code.MARK_COPIED, found.subject, f"left unchanged: {found.message}", found.remedy)
    named = _selected(desired, observed, owned, chosen)
    imported = [vm for vm in named if vm.mark is not None and vm.mark.is_imported]
    others = tuple(one for one in chosen.delete if not any(named_in(vm, (one,)) for vm in imported))
    deleted = orphans_to_delete(desired, observed, owned, replace(chosen, delete=others), findings)
    report_orphans(desired, owned, deleted, "destroy", findings)
    for vm in named:
        refuse_to_delete(vm, findings, chosen.deleted_vms)
        _tell_other_name(vm, findings)
    _refuse_bound(desired, observed, named, findings)
    leaving, steps = can_go((*named, *deleted), observed, desired.identity, findings)
    refuse_many_deletions(desired, len(leaving), chosen, findings)
    leaving = sorted(leaving, key=lambda vm: (as_counted(vm.name), vm.moid))
    hosts = bring_all_back(desired.identity, observed, chosen, findings)
    is_meant = any(chosen.selects(vm.name) for vm in desired.vms)
    is_meant |= chosen.names_host(host.name for host in observed.hosts)
    if chosen.only and not (leaving or steps or hosts or is_meant):
        subject = Subject(kind="plan", name=desired.name)
        message = f"no VM in the plan file matches {' or '.join(chosen.only)}"
        findings.add(Code.NOTHING_SELECTED, subject, message, how_to_select(chosen, desired))
    gone = {vm.moid for vm in leaving}
    staying = marked_moids(desired.identity, observed) - gone | others_moids(desired.identity, observed)
    # Rules go before their VMs: vCenter may drop a rule by itself once its VMs are gone.
    changes = [
        *remove_rules(desired.name, observed, staying),
        *remove_host_rules(desired.name, observed, staying),
    ]
    wanted = {owned.existing[vm.name].moid: vm for vm in desired.vms if vm.name in owned.existing}
    for vm in leaving:
        template = quiet_site.template_of(wanted[vm.moid]) if vm.moid in wanted else None
        detail = template.detail if template is not None else None
        layout = Layout.of(wanted[vm.moid], detail) if vm.moid in wanted else None
        allow = (*desired.allow, *chosen.allow)
        note = _LISTED if chosen.only and vm.moid in wanted else ""
        changes += plan_removal(
            vm, findings, layout=layout, delete=chosen.deleted_disks, allow=allow, note=note
        )
    refuse_disks(desired, observed, changes, chosen.deleted_disks, findings)
    changes += [*steps, *hosts]
    if not chosen.only:
        changes += give_back(desired, observed, changes)
    return plan_about_vms(desired, site, changes, findings, orphans=owned.orphans)


def _selected(desired: DesiredPlan, observed: Inventory, owned: Ownership, options: PlanOptions) -> list[Vm]:
    """Return the plan's VMs that its file names and `only` selects."""
    vms = (owned.existing[vm.name] for vm in desired.vms if vm.name in owned.existing)
    return [vm for vm in vms if options.selects(vm.name, observed.host_name_of(vm))]


def _tell_other_name(vm: Vm, findings: Findings) -> None:
    """Report the known name of a VM to be deleted, if it is not the plan file's."""
    if vm.called:
        message = f"its name in vCenter is {vm.called}, and it has the plan's owner mark"
        remedy = f"to keep the VM, first remove its owner mark: {unmarked(vm)}"
        findings.add(Code.RENAMED, Subject(kind="vm", name=vm.name, moid=vm.moid), message, remedy)


def _refuse_bound(
    desired: DesiredPlan, observed: Inventory, leaving: Sequence[Vm], findings: Findings
) -> None:
    """Refuse to delete VMs that the plan file locks, and protected ones."""
    protection = Protection.of(desired)
    locked = {vm.name for vm in desired.vms if vm.lock}
    for vm in leaving:
        subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
        if vm.name in locked:
            message = "it is locked by `lock: true`"
            findings.add(Code.LOCKED, subject, message, "set `lock: false`, and run `destroy` again")
        if covering := protection.of_vm(vm.name, observed.folder_by_moid.get(vm.folder_moid or "")):
            findings.add(Code.PROTECTED, subject, covering.message, covering.remedy())
