"""Acts on VMs and templates that exist: they are renamed, imported, deleted, or installed again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from shlex import join, quote

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import MarkVm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.import_vms import make_import_plan, with_marks
from vgpu_cfg.suggestions.acts import gone, path_of, set_in_detail, set_in_vm, together
from vgpu_cfg.suggestions.candidate import Candidate, Cost, act
from vgpu_cfg.suggestions.situation import Situation


def propose_acts_on_vms(situation: Situation) -> Iterator[Candidate]:
    """Yield acts of the owners of VMs and templates."""
    yield from _renamed(situation)
    yield from _imported(situation)
    yield from _deletable(situation)
    yield from _templates(situation)
    yield from _deleted(situation)


def _renamed(situation: Situation) -> Iterator[Candidate]:
    """VMs at the places of the plan's, or VMs of the plan at other places."""
    for found in situation.errors(Code.NOT_OURS, Code.MARK_DISAGREES):
        for wanted in situation.vms(found):
            folder = situation.site.folder_of(wanted)
            for vm in situation.observed.vms:
                is_here = folder is not None and vm.folder_moid == folder.moid
                mark = (situation.desired.name, wanted.name)
                if is_here and vm.name.casefold() == wanted.name.casefold():
                    new = f"{vm.name}-other"
                    yield act(
                        f"have the owner rename the existing VM {vm.name}",
                        set_in_vm(vm.moid, name=new),
                        f"govc object.rename {path_of(vm)} {quote(new)}",
                    )
                elif vm.mark is not None and (vm.mark.plan, vm.mark.vm) == mark:
                    home = folder.moid if folder is not None else vm.folder_moid
                    yield act(
                        f"restore the name and folder of {vm.name}",
                        set_in_vm(vm.moid, name=wanted.name, folder_moid=home),
                        f"govc object.rename {path_of(vm)} {quote(wanted.name)}",
                    )


def _imported(situation: Situation) -> Iterator[Candidate]:
    """Yield the import of the VMs there without an owner, all at once: searches are bounded."""
    names = {vm.name for found in situation.errors(Code.NOT_OURS) for vm in situation.vms(found)}
    if not names:
        return
    desired, observed = situation.desired, situation.observed
    all_of_file = make_import_plan(desired, observed, PlanOptions())
    taken = tuple(
        change.vm.name for change in of_kind(all_of_file.changes, MarkVm) if change.vm.name in names
    )
    plan = make_import_plan(desired, observed, PlanOptions(only=taken))
    if taken and plan.changes and not plan.errors:
        is_whole = len(taken) == len(all_of_file.changes) and not all_of_file.errors
        only = () if is_whole else (f"--only={name}" for name in taken)
        folded = fold_names(taken)
        yield act(
            f"import the existing VM {folded}" if len(taken) == 1 else f"import the existing VMs: {folded}",
            partial(with_marks, plan),
            join(["vgpu-cfg", "import", situation.plan_path, *only]),
        )


def _deletable(situation: Situation) -> Iterator[Candidate]:
    """Yield the approval to delete VMs that were imported."""
    for found in situation.errors(Code.IMPORTED_MAY_NOT_GO):
        vm = situation.observed.vm_by_moid.get(found.subject.moid or "")
        if vm is not None and vm.mark is not None:
            words = ["vgpu-cfg", "import", situation.plan_path, "--may-destroy", f"--only={vm.name}"]
            mark = vm.mark.model_copy(update={"is_imported": False})
            yield act(f"allow the deletion of {vm.name}", set_in_vm(vm.moid, mark=mark), join(words))


def _templates(situation: Situation) -> Iterator[Candidate]:
    for template in situation.templates(Code.TEMPLATE_IS_BIOS, Code.OPTION_NEEDS_EFI):
        says = f"reinstall the OS in the template {template.name} in EFI mode"
        yield act(says, set_in_detail(template.moid, firmware="efi"))
    for template in situation.templates(Code.TEMPLATE_WITHOUT_SNAPSHOT):
        yield act(
            f"convert {template.name} to a VM and take a snapshot",
            set_in_detail(template.moid, snapshot_moid="snapshot-new"),
            f"govc snapshot.create -vm {path_of(template)} base",
        )


def _deleted(situation: Situation) -> Iterator[Candidate]:
    """Yield the deletion of VMs that the plan then creates as they must be: one, or all of a line."""
    for vm in situation.lines(Code.FIRMWARE_IS_BIOS, Code.GUEST_NO_WAY_IN, Code.SET_AT_CREATION_ONLY):
        if (existing := situation.vm(vm.name)) is not None:
            yield act(
                f"have the owner delete {existing.name}; the plan then recreates it",
                gone(existing, situation.catalog),
                f"govc vm.destroy {path_of(existing)}",
                Cost.POWER_CYCLE,
            )
    for vm in situation.lines(Code.GUEST_NO_WAY_IN):
        names = [one.name for one in situation.desired.vms if one.line == vm.line]
        own = [found for name in names if (found := situation.vm(name)) is not None]
        if own:
            says = f"have the owner delete {', '.join(one.name for one in own)}; the plan then recreates them"
            yield act(says, together(gone(one, situation.catalog) for one in own), cost=Cost.POWER_CYCLE)
