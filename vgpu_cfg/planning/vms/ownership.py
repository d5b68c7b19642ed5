"""Plans that change who manages existing VMs: import them, or stop managing them.

Only owner marks, rules and reservations change; the VMs stay unchanged, and run. A VM is imported only if the
plan file names it, in its folder, and it has no owner. The mark records that it was imported: such a VM is
deleted only by its name. Overrides of a VM in its cluster stay: they are the VM's own, from any
author. On a host the plan owns only the mark during work on it: one that is down for the plan is returned in
its present state.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Literal

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, MarkVm, RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, Subject, VmRef, extra_config_path
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Folder, Inventory
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, OWN_PREFIX, OwnerMark, Vm
from vgpu_cfg.model.wording import as_counted, gib, listed
from vgpu_cfg.planning.estate.devices import all_devices, as_imported_disks, disk_text
from vgpu_cfg.planning.estate.down_hosts import GIVEN_UP, TAKEN_IN, bring_all_back, can_go
from vgpu_cfg.planning.estate.named import how_to_select, meant_at
from vgpu_cfg.planning.estate.ownership import as_imported, give_back, marked_moids, own_vms, unmarked
from vgpu_cfg.planning.estate.protection import PLAN_FILE, Protection
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.new_vms import change_id, plan_about_vms
from vgpu_cfg.planning.vms.rules import leave_host_rules, leave_rules
from vgpu_cfg.planning.vms.settings.table import vm_setting


def make_import_plan(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> Plan:
    """Plan to import the VMs without an owner that the plan file names and that `only` selects.

    One that is another's, a copy or a template is an error; one that is not there is none: `apply` makes it.
    """
    findings, taken, own = Findings.for_plan(desired), list[Vm](), list[str]()
    options = meant_at(options, desired, observed)
    site = Site(desired, observed, findings)
    existing = own_vms(desired, observed)
    by_place = {(vm.folder_moid, (vm.called or vm.name).casefold()): vm for vm in observed.vms}
    protection = Protection.of(desired)
    free = {vm.name for vm in observed.vms if vm.mark is None and not vm.is_template}
    free -= {vm.name for vm in desired.vms}
    chosen = set[str]()
    for wanted in desired.vms:
        folder = site.folder_of(wanted)
        found = by_place.get((folder.moid, wanted.name.casefold())) if folder is not None else None
        if not options.selects(wanted.name, observed.host_name_of(found) if found is not None else ""):
            continue
        chosen.add(wanted.name)
        if wanted.name in existing:
            own.append(wanted.name)
        elif found is not None and not _is_refused(desired, wanted, found, folder, protection, findings):
            taken.append(found)
        elif found is None and folder is not None:
            _report_elsewhere(wanted, folder, observed, free, findings)
    if not (taken or own or chosen & findings.vms_with_errors()):
        refuse_nothing(desired, options, findings)
    taken, steps = can_go(taken, observed, desired.identity, findings, TAKEN_IN)
    changes: list[Change] = [*(_marking(vm, desired) for vm in taken), *steps]
    return plan_about_vms(desired, site, changes, findings, in_sync=own, chosen=chosen)


def chosen_own_vms(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> list[Vm]:
    """Return the plan's VMs that its file names and `only` selects, with those that `only` names itself.

    VMs that the file does not name may be another file's of the same id: no glob means them.
    """
    named = own_vms(desired, observed).values()
    chosen = [vm for vm in named if options.selects(vm.name, observed.host_name_of(vm))]
    words = {selector.removeprefix("vm:") for selector in options.only}
    others = marked_moids(desired.identity, observed) - {vm.moid for vm in named}
    chosen += [vm for vm in observed.vms if vm.moid in others and vm.name in words]
    return sorted(chosen, key=lambda vm: (as_counted(vm.name), vm.moid))


def with_marks(plan: Plan, observed: Inventory) -> Inventory:
    """Return an estate as it will be once a plan has marked its VMs, as far as other plans can see."""
    marked = {change.vm.moid for change in of_kind(plan.changes, MarkVm) if change.vm.moid}
    return as_imported(observed, marked, plan.desired.identity)


def _marking(vm: Vm, desired: DesiredPlan) -> MarkVm:
    disks = as_imported_disks(vm)
    record = disks.to_record if disks is not None else None
    held = all_devices(vm.detail) if vm.detail is not None else {}
    pairs = OwnerMark(plan=desired.name, vm=vm.name, disks=record, **held).pairs
    sets = {extra_config_path(key): value for key, value in pairs.items()}
    edits = [Edit(key="owner_mark", after=f"{desired.name}, imported", sets=sets)]
    if count := len(held.get("nics", ())) + len(held.get("pci", ())):
        edits.append(Edit(key="own devices", after=f"all {count} NICs, GPUs and functions"))
    if disks is not None:
        sizes = listed(gib(disk.capacity_mib) for disk in disks.own)
        own = listed(map(disk_text, disks.own)) if disks.others else f"all ({sizes})"
        edits.append(Edit(key="own disks", after=own))
    if disks is not None and disks.others:
        edits.append(Edit(key="unmanaged disks", after=listed(map(disk_text, disks.others))))
    return mark_vm("import", vm, edits, pairs, "imported")


def mark_vm(
    verb: str,
    vm: Vm,
    edits: Sequence[Edit],
    pairs: Mapping[str, str],
    mark: Literal["imported", "none"],
    needs: tuple[str, ...] = (),
) -> MarkVm:
    """Return the change that writes a VM's mark, or takes it away."""
    version = vm.detail.change_version if vm.detail is not None else ""
    return MarkVm(
        id=change_id(verb, vm.name),
        subject=Subject(kind="vm", name=vm.name, moid=vm.moid),
        edits=tuple(edits),
        needs=needs,
        host_moid=vm.host_moid,
        vm=VmRef(name=vm.name, moid=vm.moid),
        spec=VmSpec(extra_config=dict(pairs), change_version=version or None),
        mark=mark,
    )


def _is_refused(
    desired: DesiredPlan,
    wanted: DesiredVm,
    found: Vm,
    folder: Folder | None,
    protection: Protection,
    findings: Findings,
) -> bool:
    """Return why a VM cannot be imported; False if nothing prevents it."""
    covering = protection.of_vm(found.name, folder, found.manager)
    if covering is not None and covering.source != PLAN_FILE:
        findings.refuse_vm(Code.PROTECTED, wanted, covering.message, covering.remedy())
        return True
    for message, remedy in _objections(desired, wanted, found):
        findings.refuse_vm(Code.CANNOT_BE_IMPORTED, wanted, message, remedy)
        return True
    return False


def _objections(desired: DesiredPlan, wanted: DesiredVm, found: Vm) -> Iterator[tuple[str, str]]:
    mark = found.mark
    if found.is_template:
        yield "it is a template", "use another name or folder for the plan's VM, or exclude it with --only"
    elif mark is not None and found.is_copy:
        message = (
            f"the VM is a copy: its owner mark was written for the VM with instance UUID {mark.instance_uuid}"
        )
        remedy = (
            f"make sure that {mark.plan}/{mark.vm} does not belong to another plan; then remove its mark, "
            f"{unmarked(found)}, and import it"
        )
        yield message, remedy
    elif mark is not None and not mark.is_named(desired.identity):
        with_id = f" with the ID {mark.id}" if mark.id else ""
        message = (
            f"the VM has the owner mark {mark.plan}/{mark.vm}{with_id}, written by "
            f"{mark.made_by or 'unknown'}"
        )
        remedy = (
            f"release it with {mark.plan}'s plan file: `vgpu-cfg forget {quote(mark.plan)}.yaml "
            f"--only={quote(found.name)}`; if that file is lost: {unmarked(found)}"
        )
        yield message, remedy
    elif mark is not None:
        message = f"the VM already belongs to this plan as {mark.vm}"
        yield message, f"change its name back to {mark.vm}, in vCenter or in the plan file"
    elif found.name != wanted.name:
        message = f"its name in vCenter is {found.name!r}, which vCenter treats as the same name"
        yield message, f"use the name {found.name}"
    elif not found.instance_uuid:
        message = "vCenter does not report its instance UUID, which distinguishes a VM from a copy"
        yield (
            message,
            "make sure that the VM's host is connected and that the account has read access to the VM",
        )


def _report_elsewhere(
    wanted: DesiredVm, folder: Folder, observed: Inventory, free: Collection[str], findings: Findings
) -> None:
    """Report unowned VMs of that name in other folders, or of a similar one: the plan file may mean one."""
    places, where = sorted(_paths(wanted, observed)), folder.inventory_path or folder.name
    if places:
        message = f"{where} contains no VM with this name, but one exists in {' and '.join(places)}"
        remedy = "set that VM's `folder` in the plan file; otherwise `apply` creates a new VM"
        findings.add_vm(Code.CANNOT_BE_IMPORTED, wanted, message, remedy, Severity.WARNING)
    elif near := did_you_mean(wanted.name, free):
        message = f"{where} contains no VM with this name"
        remedy = f"{near} Otherwise `apply` creates a new VM"
        findings.add_vm(Code.CANNOT_BE_IMPORTED, wanted, message, remedy, Severity.WARNING)


def _paths(wanted: DesiredVm, observed: Inventory) -> Iterable[str]:
    return (
        vm.inventory_path or vm.name
        for vm in observed.vms
        if vm.name == wanted.name and vm.mark is None and not vm.is_template
    )


def refuse_nothing(
    desired: DesiredPlan, options: PlanOptions, findings: Findings, severity: Severity = Severity.ERROR
) -> None:
    """Say that none of the plan's VMs is there, or none of those that were chosen."""
    matching = f" that match {' or '.join(options.only)}" if options.only else ""
    message = f"none of the plan file's VMs{matching} exist"
    subject = Subject(kind="plan", name=desired.name)
    findings.add(Code.NOTHING_SELECTED, subject, message, how_to_select(options, desired), severity)


_Tie = SetRule | SetHostRule | RemoveRule | RemoveVmGroup


def make_forget_plan(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> Plan:
    """Plan to give up the plan's VMs that `only` selects; a locked or protected one loses nothing by it.

    Without `only` the plan's reservation is given back with them. One on a host that does not respond keeps
    its marks and its rules: nothing reaches it.
    """
    findings, options = Findings.for_plan(desired, is_leaving=True), meant_at(options, desired, observed)
    site = Site(desired, observed, findings)
    chosen = chosen_own_vms(desired, observed, options)
    leaving, steps = can_go(chosen, observed, desired.identity, findings, GIVEN_UP)
    hosts = bring_all_back(desired.identity, observed, options, findings)
    _refuse_marked_hosts(desired, observed, {one.host.moid for one in hosts}, findings)
    _report_overrides(leaving, observed, findings)
    ties = list(_ties(desired, observed, leaving))
    needs = tuple(tie.id for tie in ties)
    changes: list[Change] = [*ties, *(_unmarking(vm, needs) for vm in leaving), *steps, *hosts]
    if not options.only:
        changes += give_back(desired, observed, changes)
    if not chosen and not changes:
        is_done = _are_given_up(desired, observed, options)
        refuse_nothing(desired, options, findings, Severity.WARNING if is_done else Severity.ERROR)
    return plan_about_vms(desired, site, changes, findings)


def _are_given_up(desired: DesiredPlan, observed: Inventory, options: PlanOptions) -> bool:
    """Whether VMs that are meant have no mark, as after a run that gave them up; hosts have none by then."""
    if not (desired.vms or options.only) or options.names_host(host.name for host in observed.hosts):
        return True
    meant = {vm.name for vm in desired.vms if options.selects(vm.name)}
    meant |= {selector.removeprefix("vm:") for selector in options.only}
    return any(vm.mark is None and not vm.is_template and vm.name in meant for vm in observed.vms)


def _ties(desired: DesiredPlan, observed: Inventory, leaving: Sequence[Vm]) -> Iterator[_Tie]:
    """Yield what takes the VMs out of the plan's rules and groups, also of those under its former names."""
    moids = {vm.moid for vm in leaving}
    names = {desired.name, *(vm.mark.plan for vm in leaving if vm.mark is not None)}
    for name in sorted(names):
        yield from leave_rules(name, observed, moids)
        yield from leave_host_rules(name, observed, moids)


def _unmarking(vm: Vm, needs: tuple[str, ...]) -> MarkVm:
    """Return the removal of a VM's marks, after all that makes it the plan's in its cluster."""
    kept = vm.detail.extra_config if vm.detail is not None else {}
    others = sorted(key for key in kept if key.startswith(OWN_PREFIX) and key not in _MARK)
    pairs = dict.fromkeys((*_MARK, *others), "")
    label = vm.mark.plan if vm.mark is not None else ""
    imported = ", imported" if vm.mark is not None and vm.mark.is_imported else ""
    edits = [
        Edit(key="owner_mark", before=f"{label}{imported}", sets=_sets(_MARK)),
        *(Edit(key=key, before="written by apply", sets=_sets((key,))) for key in others),
    ]
    return mark_vm("forget", vm, edits, pairs, "none", needs)


_MARK = (MARK_PLAN_KEY, MARK_VM_KEY)


def _sets(keys: Iterable[str]) -> dict[str, str]:
    return {extra_config_path(key): "" for key in keys}


def _report_overrides(leaving: Sequence[Vm], observed: Inventory, findings: Findings) -> None:
    """Report the remaining overrides of each VM in its cluster."""
    clusters = observed.cluster_by_moid
    hosts = observed.host_by_moid
    for vm in leaving:
        host = hosts.get(vm.host_moid or "")
        cluster = clusters.get(host.cluster_moid or "") if host is not None else None
        if cluster is None:
            continue
        rows = ((vm_setting(key), value) for key, value in cluster.overrides_of(vm.moid).items())
        words = [f"{row.name} {row.text(value)}" for row, value in rows if row is not None]
        if words:
            message = f"{cluster.name} keeps its overrides for this VM: {listed(words)}"
            remedy = f"to remove them, go to {cluster.name} > Configure > VM Overrides"
            subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
            findings.add(Code.KEEPS_OVERRIDES, subject, message, remedy)


def _refuse_marked_hosts(
    desired: DesiredPlan, observed: Inventory, given_back: Collection[str], findings: Findings
) -> None:
    """Refuse while the plan works on a host: without its VMs that could not be finished."""
    for moid, facts in sorted(observed.facts.hosts.items()):
        if facts.mark is not None and facts.mark.is_of(desired.identity) and moid not in given_back:
            host = observed.host_by_moid[moid]
            subject = Subject(kind="host", name=host.name, moid=moid)
            message = (
                f"the plan has been changing the host since {facts.mark.since:%Y-%m-%d %H:%M} and "
                "is not finished"
            )
            remedy = "run `apply` to finish the changes, then run `forget`"
            findings.add(Code.HOST_STILL_MARKED, subject, message, remedy)
