"""Which VMs are this plan's own, which only look so, and what the plan file protects.

A VM is owned when its owner mark, its name and the plan's folder agree: a clone
inherits the mark of what it was cloned from, and a renamed or moved VM is somebody's
decision. What is not owned is never touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from shlex import quote

from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Cluster, Folder, Inventory
from vgpu_cfg.model.observed.vm import MARK_PLAN_KEY, MARK_VM_KEY, Vm
from vgpu_cfg.model.plan.change import Subject
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import matches_any


@dataclass(slots=True)
class Ownership:
    """What became of the names: `existing` are owned VMs by name, `blocked` names must not be made.

    `orphans` are owned VMs that the plan file does not name any more.
    """

    existing: dict[str, Vm] = field(default_factory=dict)
    blocked: set[str] = field(default_factory=set)
    orphans: list[Vm] = field(default_factory=list)


def is_marked(vm: Vm, plan: str) -> bool:
    """Whether a VM's mark names this plan and the VM's own name."""
    return vm.mark is not None and vm.mark.plan == plan and vm.mark.vm == vm.name and not vm.is_template


def marked_moids(plan: str, observed: Inventory) -> frozenset[str]:
    """Return the VMs whose marks say that they are this plan's, wherever they are, by moid."""
    return frozenset(vm.moid for vm in observed.vms_marked(plan) if is_marked(vm, plan))


def assess_ownership(
    desired: DesiredPlan, observed: Inventory, folders: Mapping[str, Folder | None], findings: Findings
) -> Ownership:
    """Find the plan's own VMs; `folders` gives each desired VM's folder by VM name."""
    result = Ownership()
    by_place = {(vm.folder_moid, vm.name.casefold()): vm for vm in observed.vms}
    marked = sorted(observed.vms_marked(desired.name), key=lambda vm: (vm.name, vm.moid))
    strays: dict[str, list[Vm]] = {}
    for vm in marked:
        strays.setdefault(vm.mark.vm if vm.mark else "", []).append(vm)
    for wanted in desired.vms:
        folder = folders.get(wanted.name)
        if folder is None:
            result.blocked.add(wanted.name)
            continue
        found = by_place.get((folder.moid, wanted.name.casefold()))
        if found is not None and is_marked(found, desired.name):
            result.existing[wanted.name] = found
        elif found is not None:
            _refuse_stranger(desired, wanted, found, findings)
            result.blocked.add(wanted.name)
        elif others := strays.get(wanted.name):
            _refuse_stray(wanted, folder, others[0], observed, findings)
            result.blocked.add(wanted.name)
    _assess_rest(desired, marked, folders.values(), result, findings)
    return result


def _refuse_stranger(desired: DesiredPlan, wanted: DesiredVm, found: Vm, findings: Findings) -> None:
    if found.mark is None:
        what = "a template" if found.is_template else "a VM"
        message = f"{what} of this name is in the folder and carries no owner mark"
        findings.refuse_vm(Code.NOT_OURS, wanted, message, "choose another name or folder for the plan's VM")
        return
    message = (
        f"a VM of this name is in the folder, and its mark says {found.mark.plan}/{found.mark.vm}, "
        f"not {desired.name}/{wanted.name}"
    )
    remedy = "choose another name for the plan's VM; what becomes of this one is for its owner to decide"
    findings.refuse_vm(Code.MARK_DISAGREES, wanted, message, remedy)


def _refuse_stray(
    wanted: DesiredVm, folder: Folder, found: Vm, observed: Inventory, findings: Findings
) -> None:
    names = {one.moid: one.inventory_path or one.name for one in observed.folders}
    where = names.get(found.folder_moid or "", "another folder")
    message = f"the VM with this plan's mark for it is called {found.name!r} and is in {where}"
    remedy = (
        f"rename or move it back to {wanted.name} in {folder.inventory_path or folder.name}; or remove its "
        f"extraConfig {MARK_PLAN_KEY} and {MARK_VM_KEY}, and it is not this plan's any more"
    )
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
        if is_marked(vm, desired.name) and vm.folder_moid in places and vm.name not in wanted:
            result.orphans.append(vm)
        elif mark.vm in wanted and mark.vm in result.blocked:
            continue
        elif is_marked(vm, desired.name) and vm.name not in wanted:
            message = "left the plan file, and no line names its folder any more: it is left alone"
            remedy = f"put its line back, with this folder, and run `destroy` with --only {quote(vm.name)}"
            findings.add(Code.ORPHAN_ELSEWHERE, subject, message, remedy)
        else:
            message = f"carries the owner mark {mark.plan}/{mark.vm}, is not this plan's VM and is left alone"
            remedy = f"if it is a clone, remove {MARK_PLAN_KEY} and {MARK_VM_KEY} from its extraConfig"
            findings.add(Code.MARK_COPIED, subject, message, remedy)


def protects_vm(protect: ProtectEntry, name: str, folder: Folder | None) -> str:
    """Return which rule of `protect` covers a VM, empty where none does."""
    if matches_any(name, protect.names):
        return "its name"
    if folder is not None:
        path = folder.inventory_path or folder.name
        for glob in protect.folders:
            globs = (glob, f"{glob.rstrip('/')}/*")
            if matches_any(path, globs) or matches_any(folder.name, [glob]):
                return f"the folder {path}"
    return ""


def protects_cluster(protect: ProtectEntry, cluster: Cluster) -> bool:
    """Whether `protect` covers a cluster."""
    return any(matches_any(text, protect.clusters) for text in (cluster.name, cluster.inventory_path))
