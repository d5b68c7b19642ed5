"""The changes in a part of a plan: those of the chosen VMs, and their prerequisites."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.change import Change, CreateVm


def only_chosen(changes: Sequence[Change], chosen: set[str]) -> list[Change]:
    """Keep the changes to the chosen VMs, their needs, and rules whose VMs will all exist.

    Hosts were chosen before anything was planned for them.
    """
    changes = list(_overrides_of_chosen(changes, chosen))
    kept = {change.id for change in changes if change.subject.kind not in ("vm", "cluster")}
    chosen_vms = {
        change.id for change in changes if change.subject.kind == "vm" and change.subject.name in chosen
    }
    kept = all_needed(kept | chosen_vms, {change.id: change.needs for change in changes})
    made = {change.subject.name for change in of_kind(changes, CreateVm) if change.id in kept}
    for change in changes:
        if change.ruled and all(vm.moid or vm.name in made for vm in change.ruled):
            kept.add(change.id)
    return [change for change in changes if change.id in kept]


def _overrides_of_chosen(changes: Sequence[Change], chosen: set[str]) -> Iterator[Change]:
    """Yield the changes; of clusters' overrides only those of the chosen VMs."""
    made_by = {change.vm.name: change.id for change in of_kind(changes, CreateVm)}
    for change in changes:
        kept = change.part_for(chosen, made_by)
        if kept is not None:
            yield kept
