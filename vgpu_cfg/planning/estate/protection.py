"""Protection of VMs that are never written, and limits on the deletion of those that the plan file left out.

Never written are VMs under `protect`, and those of other products. Two plan files of one name own the same
VMs, and each leaves the other's out. So a VM that was left out is deleted only if `--delete` names it. Beyond
a number, or more than half of the plan's VMs, the command must name how many it deletes: a name too many is
soon typed, and a plan file soon the wrong one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC
from shlex import quote

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Folder, Inventory
from vgpu_cfg.model.observed.vm import Manager, Vm, VmOrigin
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import as_counted, counted
from vgpu_cfg.planning.estate.ownership import Ownership, refuse_to_delete
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions, matches_any

PLAN_FILE = "the plan file"


@dataclass(frozen=True, slots=True)
class Protection:
    """The globs of `protect`, those of the contexts first: no plan file takes them away.

    `rules` are (who says so, globs).
    """

    rules: tuple[tuple[str, ProtectEntry], ...] = ()

    @classmethod
    def of(cls, desired: DesiredPlan) -> Protection:
        """Return the objects that a plan must not write, by itself and by the contexts of its vCenter."""
        contexts = ((f"the context {one.name} in {one.file}", one.protect) for one in desired.contexts)
        return cls((*contexts, (PLAN_FILE, desired.protect)))

    def of_vm(self, name: str, folder: Folder | None, manager: Manager | None = None) -> Covering | None:
        """Return what covers a VM, None if nothing does. A folder whose path is unread may be any.

        A VM that another product manages is covered whatever the files say.
        """
        managed = None if manager is None else Covering("the VM", manager.words, manager=manager)
        return managed or next(self._of_vm(name, folder), None)

    def of_cluster(self, cluster: Cluster | None) -> Covering | None:
        """Return what covers a cluster, None if nothing does. One that was not read may be any."""
        for source, globs in self.rules:
            if cluster is None:
                if globs.clusters:
                    return Covering("its cluster", source, unread="clusters")
            elif any(matches_any(text, globs.clusters) for text in (cluster.name, cluster.inventory_path)):
                return Covering(f"the cluster {cluster.name}", source)
        return None

    def _of_vm(self, name: str, folder: Folder | None) -> Iterator[Covering]:
        for source, globs in self.rules:
            if matches_any(name, globs.names):
                yield Covering("its name", source)
            if folder is None or not folder.inventory_path:
                if globs.folders:
                    yield Covering("its folder", source, unread="folders")
                continue
            path = folder.inventory_path
            for glob in globs.folders:
                if matches_any(path, (glob, f"{glob.rstrip('/')}/*")) or matches_any(folder.name, [glob]):
                    yield Covering(f"the folder {path}", source)


@dataclass(frozen=True, slots=True)
class Covering:
    """The part of `protect` that covers an object: `what` it names, and its `source`.

    `unread` is the kind of thing whose place was not read: one of those that are protected may be it.
    `manager` is the product that manages the VM, which is then the source.
    """

    what: str
    source: str
    unread: str = ""
    manager: Manager | None = None

    @property
    def message(self) -> str:
        """Say that it is protected, and by whom."""
        if self.manager:
            return f"{self.what} is managed by {self.source}"
        if self.unread:
            return f"{self.what} could not be read, and {self.source} protects some {self.unread}"
        return f"{self.what} is protected by {self.source}"

    def remedy(self, or_else: str = "", alone: str = "") -> str:
        """Return the remedy: `or_else` follows "or", `alone` is the remaining one if a context protects.

        A plan file cannot override a context.
        """
        if self.manager:
            told = f"ask the owner, {self.manager.owner}, to make the change"
            return "; ".join(filter(None, (alone, told)))
        if self.unread:
            return f"grant the account read access to {self.what} and its parent objects"
        if self.source == PLAN_FILE:
            return f"remove it from `protect`, or {or_else}" if or_else else "remove it from `protect`"
        only = f"{alone}; " if alone else ""
        return f"{only}contact the owner of the context to change its protection"


_MOST_DELETIONS = 10
"""The most VMs that are deleted without approval, unless a context of the vCenter sets another number."""
_FEW_DELETIONS = 2
"""A number of VMs that is never too large a share of a plan."""


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
            message = f"--delete {name}: another VM with this name is also selected for deletion"
            findings.add(Code.NOTHING_SELECTED, subject, message, "delete them one at a time")
            continue
        if covering := protection.of_vm(vm.name, observed.folder_by_moid.get(vm.folder_moid or "")):
            findings.add(Code.PROTECTED, _subject(vm), covering.message, covering.remedy())
        refuse_to_delete(vm, findings, options.deleted_vms)
        chosen[vm.moid] = vm
    return [vm for vm in owned.orphans if vm.moid in chosen]


def report_orphans(
    desired: DesiredPlan, owned: Ownership, deleted: Iterable[Vm], verb: str, findings: Findings
) -> None:
    """Report the fate of each orphan; `verb` is the command that would delete it.

    As many new VMs as orphans may be the same VMs with new names: `moved` would keep them.
    """
    gone = {vm.moid for vm in deleted}
    left = [vm.name for vm in owned.orphans if vm.moid not in gone]
    new = [vm.name for vm in desired.vms if vm.name not in owned.existing and vm.name not in owned.blocked]
    renamed = ""
    if verb == "apply" and len(left) == len(new) == len({*left}):
        before, after = sorted(left, key=as_counted), sorted(new, key=as_counted)
        both = fold_names(before), fold_names(after)
        items = [both] if ", " not in " ".join(both) else zip(before, after, strict=True)
        told = ", ".join(f"{{from: {_in_yaml(old)}, to: {_in_yaml(now)}}}" for old, now in items)
        where = f"to `moved`: `{told}`" if desired.moved else f"to the plan file: `moved: [{told}]`"
        renamed = f"if the VM was renamed, add {where}. Otherwise, "
    names = [vm.name for vm in owned.orphans]
    for vm in owned.orphans:
        if vm.moid in gone:
            message = (
                f"will be deleted (--delete): owned by this plan, {_origin(vm)}, but not in the plan file"
            )
            findings.add(Code.ORPHAN, _subject(vm), message)
            continue
        word = vm.name if names.count(vm.name) == 1 else vm.inventory_path
        message = f"belongs to this plan, {_origin(vm)}, but is not in the plan file, so it is kept"
        remedy = f"{renamed}add it to the plan file, or delete it: `vgpu-cfg {verb} --delete={quote(word)}`"
        findings.add(Code.ORPHAN, _subject(vm), message, remedy)


def _in_yaml(name: str) -> str:
    return f"'{name}'" if "{" in name else name


def _refuse(
    desired: DesiredPlan, owned: Ownership, name: str, named: Iterable[Vm], findings: Findings
) -> None:
    subject = Subject(kind="plan", name=desired.name)
    if paths := [vm.inventory_path or vm.moid for vm in named]:
        message = f"--delete {name}: the plan has {len(paths)} orphans with this name"
        remedy = f"specify one of these paths: {' or '.join(sorted(paths))}"
    elif any(vm.name == name for vm in desired.vms):
        message = f"--delete {name}: this VM is in the plan file"
        remedy = f"omit this --delete; to delete the VM, use `destroy` with --only {quote(name)}"
    elif owned.orphans:
        message = f"--delete {name}: the plan has no orphan with this name (globs are not accepted)"
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
    return f"created {when} by {origin.made_by or 'an unknown user'}"


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
        message = f"{what} would be deleted; --allow-destroy allows {options.allow_destroy}"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)
        return
    most, source = _most(desired)
    if count > most:
        message = f"{what} would be deleted; the limit is {most}{source}"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)
    elif of is not None and count > _FEW_DELETIONS and count * 2 > of:
        message = f"{count} of the plan's {of} VMs would be deleted; the limit is half of them"
        findings.add(Code.MANY_DELETIONS, subject, message, remedy)


def _most(desired: DesiredPlan) -> tuple[int, str]:
    """Return the most deletions without approval, by the strictest context, and that context in words."""
    stated = [(one.most_deletions, one) for one in desired.contexts if one.most_deletions is not None]
    if not stated:
        return _MOST_DELETIONS, ""
    most, context = min(stated, key=lambda pair: pair[0])
    return most, f" (the context {context.name} in {context.file})"
