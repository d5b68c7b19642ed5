"""VMs to delete that the plan file does not name, and how many a run deletes without approval of that number.

Two plan files of one name own the same VMs, and each leaves the other's out. So such a VM is deleted only if
`--delete` names it. Beyond a number, or more than half of the plan's VMs, the command must name how many it
deletes: a name too many is soon typed, and a plan file soon the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from shlex import quote

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm, VmOrigin
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.estate.ownership import Ownership, refuse_to_delete
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions

MOST = 10
"""So many are deleted without leave, unless a context of the vCenter says another number."""
FEW = 2
"""So many are never too large a share of a plan."""


def orphans_to_delete(
    desired: DesiredPlan, observed: Inventory, owned: Ownership, options: PlanOptions, findings: Findings
) -> list[Vm]:
    """Return the orphans that `--delete` names, by their exact names or inventory paths.

    A name that means none of them, or several, is an error, and so is a protected VM.
    """
    protection = Protection.of(desired)
    chosen: dict[str, Vm] = {}
    for name in dict.fromkeys(options.deleted_vms):
        named = [vm for vm in owned.orphans if name in (vm.name, vm.inventory_path)]
        if len(named) != 1:
            _refuse(desired, owned, name, named, findings)
            continue
        vm = named[0]
        if any(other.name == vm.name for other in chosen.values()):
            subject = Subject(kind="plan", name=desired.name)
            message = f"--delete {name}: another VM of this name is also selected for deletion"
            findings.add(Code.NOTHING_SELECTED, subject, message, "delete them one at a time")
            continue
        if covering := protection.of_vm(vm.name, observed.folder_by_moid.get(vm.folder_moid or "")):
            findings.add(Code.PROTECTED, _subject(vm), covering.message, covering.remedy())
        refuse_to_delete(vm, findings)
        chosen[vm.moid] = vm
    return [vm for vm in owned.orphans if vm.moid in chosen]


def report_orphans(owned: Ownership, deleted: Iterable[Vm], verb: str, findings: Findings) -> None:
    """Report the fate of each orphan; `verb` is the command that would delete it."""
    gone = {vm.moid for vm in deleted}
    names = [vm.name for vm in owned.orphans]
    for vm in owned.orphans:
        if vm.moid in gone:
            message = (
                f"will be deleted (--delete): owned by this plan, {_origin(vm)}, but not in the plan file"
            )
            findings.add(Code.ORPHAN, _subject(vm), message)
            continue
        word = vm.name if names.count(vm.name) == 1 else vm.inventory_path
        message = f"belongs to this plan, {_origin(vm)}, but is not in the plan file; it is not deleted"
        remedy = f"add it to the plan file, or delete it: `{verb}` with --delete {quote(word)}"
        findings.add(Code.ORPHAN, _subject(vm), message, remedy)


def _refuse(
    desired: DesiredPlan, owned: Ownership, name: str, named: Iterable[Vm], findings: Findings
) -> None:
    subject = Subject(kind="plan", name=desired.name)
    if paths := [vm.inventory_path or vm.moid for vm in named]:
        message = f"--delete {name}: the plan has {len(paths)} orphans with this name"
        remedy = f"specify the path of one: {' or '.join(sorted(paths))}"
    elif any(vm.name == name for vm in desired.vms):
        message = f"--delete {name}: this VM is in the plan file"
        remedy = f"omit this --delete; to delete the VM, use `destroy` with --only {quote(name)}"
    elif owned.orphans:
        message = f"--delete {name}: the plan has no orphan of this name (globs are not accepted)"
        remedy = did_you_mean(name, (vm.name for vm in owned.orphans), noun="orphans") or (
            "run `status` to list orphans"
        )
    else:
        message = f"--delete {name}: the plan has no orphans; all of its VMs are in the plan file"
        remedy = "omit --delete"
    findings.add(Code.NOTHING_SELECTED, subject, message, remedy)


def _origin(vm: Vm) -> str:
    """Return the creator of a VM and the time, as far as vCenter reports them."""
    origin = vm.origin or VmOrigin()
    when = "at an unknown time"
    if origin.made_at is not None:
        when = f"{origin.made_at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    return f"created {when} by {origin.made_by or 'unknown'}"


def _subject(vm: Vm) -> Subject:
    return Subject(kind="vm", name=vm.name, moid=vm.moid)


def refuse_many_deletions(
    desired: DesiredPlan, count: int, options: PlanOptions, findings: Findings, *, of: int | None = None
) -> None:
    """Refuse to delete more VMs than `--allow-destroy` names, or than go without it.

    `of` is how many VMs the plan has, if more than half of them count as many, too.
    """
    if count <= options.allow_destroy:
        return
    subject = Subject(kind="plan", name=desired.name)
    what = counted(count, "VM")
    remedy = f"to delete all of them, add --allow-destroy {count}"
    if options.allow_destroy:
        message = f"{what} would be deleted; --allow-destroy permits {options.allow_destroy}"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)
        return
    most, source = _most(desired)
    if count > most:
        message = f"{what} would be deleted; the limit is {most}{source}"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)
    elif of is not None and count > FEW and count * 2 > of:
        message = f"{count} of the plan's {of} VMs would be deleted; the limit is half of them"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)


def _most(desired: DesiredPlan) -> tuple[int, str]:
    """Return how many go without leave, and who says so: the least of what contexts say."""
    stated = [(one.most_deletions, one) for one in desired.contexts if one.most_deletions is not None]
    if not stated:
        return MOST, ""
    most, context = min(stated, key=lambda pair: pair[0])
    return most, f" (the context {context.name} in {context.file})"
