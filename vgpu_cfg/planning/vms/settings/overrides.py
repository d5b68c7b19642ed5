"""What clusters are told of single VMs: one request for each cluster, once its VMs are there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.change import SetOverrides
from vgpu_cfg.changes.kinds.cluster_rules import VmOverride
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.observed.inventory import Cluster
from vgpu_cfg.planning.vms.settings.edits import ClusterEdit


@dataclass(frozen=True, slots=True)
class Overridden:
    """A VM, what its cluster must be told of it, and the change that makes it ("" where it exists)."""

    vm: VmRef
    edits: tuple[ClusterEdit, ...]
    made_by: str


def plan_overrides(
    found: Mapping[str, Sequence[Overridden]], clusters: Mapping[str, Cluster]
) -> list[SetOverrides]:
    """List one change for each cluster (by moid) that must be told something."""
    return [
        SetOverrides(
            id=f"set VM overrides in {clusters[moid].name}",
            subject=Subject(kind="cluster", name=clusters[moid].name, moid=moid),
            edits=tuple(
                one.edit.model_copy(update={"key": f"{vm.vm.name} {one.key}"})
                for vm in vms
                for one in vm.edits
            ),
            needs=tuple(vm.made_by for vm in vms if vm.made_by),
            cluster_moid=moid,
            overrides=tuple(
                VmOverride(vm=vm.vm, settings={one.key: one.value for one in vm.edits}) for vm in vms
            ),
        )
        for moid, vms in found.items()
    ]


def only_of(change: SetOverrides, names: Iterable[str], made_by: Mapping[str, str]) -> SetOverrides | None:
    """Return the part of a change that is about these VMs, None where there is none.

    `made_by` names, by VM, the changes that make VMs.
    """
    chosen = set(names)
    kept = tuple(one for one in change.overrides if one.vm.name in chosen)
    if not kept:
        return None
    keys = {f"{one.vm.name} {key}" for one in kept for key in one.settings}
    others = {made_by[one.vm.name] for one in change.overrides if one.vm.name in made_by} - {
        made_by[one.vm.name] for one in kept if one.vm.name in made_by
    }
    return change.model_copy(
        update={
            "overrides": kept,
            "edits": tuple(edit for edit in change.edits if edit.key in keys),
            "needs": tuple(need for need in change.needs if need not in others),
        }
    )
