"""The changes in a part of a plan: those of the chosen VMs, and their prerequisites."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.change import Change, CreateVm, PowerOffVm
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


def only_chosen(changes: Sequence[Change], chosen: set[str]) -> list[Change]:
    """Keep the changes to the chosen VMs, their needs, and rules whose VMs will all exist.

    A VM that must be powered off for a chosen one keeps all of its changes, so that it is not left off. Hosts
    were chosen before anything was planned for them.
    """
    changes = list(_overrides_of_chosen(changes, chosen))
    kept = {change.id for change in changes if change.subject.kind not in ("vm", "cluster")}
    needs = {change.id: change.needs for change in changes}
    while True:
        chosen_vms = {
            change.id for change in changes if change.subject.kind == "vm" and change.subject.name in chosen
        }
        kept = all_needed(kept | chosen_vms, needs)
        powered_off = {one.subject.name for one in of_kind(changes, PowerOffVm) if one.id in kept}
        if powered_off <= chosen:
            break
        chosen = chosen | powered_off
    made = {change.subject.name for change in of_kind(changes, CreateVm) if change.id in kept}
    for change in changes:
        if change.ruled and all(vm.moid or vm.name in made for vm in change.ruled):
            kept.add(change.id)
    return [change for change in changes if change.id in kept]


def report_included(changes: Iterable[Change], chosen: set[str], findings: Findings) -> None:
    """Warn of VMs that `--only` does not select, and that are powered off because a selected one needs it."""
    for change in of_kind(changes, PowerOffVm):
        if change.subject.name not in chosen:
            message = "not selected, but included: a selected VM gets its GPU only after this VM is off"
            remedy = "select VMs on other GPUs, or wait until this VM can be powered off"
            findings.add(Code.ONLY_MAY_STRAND, change.subject, message, remedy)


def _overrides_of_chosen(changes: Sequence[Change], chosen: set[str]) -> Iterator[Change]:
    """Yield the changes; of clusters' overrides only those of the chosen VMs."""
    made_by = {change.vm.name: change.id for change in of_kind(changes, CreateVm)}
    for change in changes:
        kept = change.part_for(chosen, made_by)
        if kept is not None:
            yield kept
