"""What clusters are told of single VMs: one request for each cluster, once its VMs are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
                one.edit.model_copy(update={"key": f"{vm.vm.name} {one.edit.key}"})
                for vm in vms
                for one in vm.edits
            ),
            needs=tuple(vm.made_by for vm in vms if vm.made_by),
            cluster_moid=moid,
            overrides=tuple(
                VmOverride(vm=vm.vm, settings={one.edit.key: one.value for one in vm.edits}) for vm in vms
            ),
        )
        for moid, vms in found.items()
    ]
