"""A cluster's overrides for one of its VMs: the rows for DRS and HA, and one request for each cluster.

The cluster keeps them, so the VM must exist before the request.

Source: vSphere API reference, ClusterDrsVmConfigInfo, ClusterDasVmSettings and
ClusterVmToolsMonitoringSettings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.change import SetOverrides
from vgpu_cfg.changes.kinds.cluster import VmOverride
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.observed.inventory import Cluster
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.settings.edits import ClusterEdit
from vgpu_cfg.planning.vms.settings.setting import Carrier, Topic, VmSetting, Wanted, as_it_is, as_stated

DRS_LIST, HA_LIST = "drsVmConfig", "dasVmConfig"
_BEHAVIORS = {"manual": "manual", "partial": "partiallyAutomated", "full": "fullyAutomated"}
_OFF = "off"
DRS_PLACES = ("partial", "full")
"""The values that let DRS choose the host of a power-on. Source: vSphere API reference, DrsBehavior."""
RESTART_PRIORITIES = ("disabled", "lowest", "low", "medium", "high", "highest")
_MONITORING = {"off": "vmMonitoringDisabled", "vm": "vmMonitoringOnly", "vm-and-app": "vmAndAppMonitoring"}
_DAS = f"{HA_LIST}.dasSettings"
_TOOLS = f"{_DAS}.vmToolsMonitoringSettings"


def drs_in_force(vm: PlacedVm) -> SettingValue | None:
    """Return DRS's permission for a VM once the plan is carried out, in the words of `drs`.

    That is the plan file's value for it, else its cluster's for it, else its cluster's for all VMs; None if
    DRS is off, or if it is unknown.
    """
    if vm.cluster is None or not vm.cluster.drs_enabled:
        return None
    wanted, found = _drs(vm), vm.overrides.get("drs")
    own = wanted.value if wanted is not None else found
    of_all = next(
        (word for word, reported in _BEHAVIORS.items() if reported == vm.cluster.drs_behavior), None
    )
    return own if own == _OFF or (own is not None and vm.cluster.uses_vm_levels) else of_all


def _drs_leaves(value: SettingValue) -> Mapping[str, SettingValue]:
    if value == _OFF:
        return {f"{DRS_LIST}.enabled": False}
    return {f"{DRS_LIST}.enabled": True, f"{DRS_LIST}.behavior": _BEHAVIORS[str(value)]}


_drs = as_stated("drs")


def _ha(part: str) -> Callable[[PlacedVm], Wanted | None]:
    def desired(vm: PlacedVm) -> Wanted | None:
        stated = getattr(vm.stated("ha"), part, None)
        return Wanted(stated) if isinstance(stated, str) else None

    return desired


def _objects_to_drs(vm: PlacedVm, value: SettingValue) -> Objection | None:
    if vm.cluster is None or vm.cluster.is_standalone:
        return _without_cluster(vm, "drs")
    if not vm.cluster.drs_enabled:
        message = f"`drs` is set, but DRS is off in cluster {vm.cluster.name}"
        return Objection(Code.OVERRIDE_OF_NO_USE, message, "turn on DRS, or remove `drs`")
    if value != _OFF and not vm.cluster.uses_vm_levels:
        message = (
            f"`drs` is set, but DRS in {vm.cluster.name} ignores the automation levels of individual VMs"
        )
        remedy = "enable individual VM automation levels, or remove `drs`"
        return Objection(Code.OVERRIDE_OF_NO_USE, message, remedy)
    return None


def _objects_to_ha(vm: PlacedVm, _value: SettingValue) -> Objection | None:
    if vm.cluster is None or vm.cluster.is_standalone:
        return _without_cluster(vm, "ha")
    if not vm.cluster.ha_enabled:
        message = f"`ha` is set, but vSphere HA is off in cluster {vm.cluster.name}"
        return Objection(Code.OVERRIDE_OF_NO_USE, message, "turn on vSphere HA, or remove `ha`")
    return None


def _without_cluster(vm: PlacedVm, key: str) -> Objection | None:
    if vm.cluster is None:
        return None
    message = f"`{key}` is set, but {vm.cluster.name} is a standalone host"
    return Objection(Code.NO_CLUSTER, message, f"remove `{key}`, or specify a cluster")


def _drs_flags(value: SettingValue) -> tuple[str, ...]:
    if value == _OFF:
        return ("cluster.override.change", "-drs-enabled=false")
    return ("cluster.override.change", "-drs-enabled=true", f"-drs-mode={_BEHAVIORS[str(value)]}")


_OF_A_CLUSTER = VmSetting(
    key="",
    topic=Topic.CLUSTER,
    name="",
    source="vSphere API reference, ClusterConfigSpecEx",
    desired=_drs,
    carrier=Carrier.CLUSTER,
    text=str,
    default="the cluster's setting",
    privilege="Host.Inventory.EditCluster",
    is_live=True,
    undo="remove the VM from the cluster's VM overrides",
)
"""The common properties of all overrides."""

CLUSTER_SETTINGS = (
    replace(
        _OF_A_CLUSTER,
        key="drs",
        name="DRS",
        plan_key="drs",
        in_file=as_it_is,
        values=(*_BEHAVIORS, _OFF),
        leaves=_drs_leaves,
        govc=_drs_flags,
        objects=_objects_to_drs,
    ),
    replace(
        _OF_A_CLUSTER,
        key="ha_restart",
        name="HA restart",
        plan_key="ha",
        values=RESTART_PRIORITIES,
        in_file=lambda value: {"restart": value},
        desired=_ha("restart"),
        leaves=lambda value: {f"{_DAS}.restartPriority": value},
        govc=lambda value: ("cluster.override.change", f"-ha-restart-priority={value}"),
        objects=_objects_to_ha,
    ),
    replace(
        _OF_A_CLUSTER,
        key="ha_monitoring",
        name="HA monitoring",
        plan_key="ha",
        values=tuple(_MONITORING),
        in_file=lambda value: {"monitoring": value},
        desired=_ha("monitoring"),
        leaves=lambda value: {
            f"{_TOOLS}.clusterSettings": False,
            f"{_TOOLS}.vmMonitoring": _MONITORING[str(value)],
        },
        client=lambda value: f"VM Overrides > vSphere HA - VM Monitoring: {value}",
        objects=_objects_to_ha,
    ),
)


@dataclass(frozen=True, slots=True)
class Overridden:
    """A VM, its wanted overrides in the cluster, and the change that makes it ("" if it exists)."""

    vm: VmRef
    edits: tuple[ClusterEdit, ...]
    made_by: str


def plan_overrides(
    found: Mapping[str, Sequence[Overridden]], clusters: Mapping[str, Cluster]
) -> list[SetOverrides]:
    """List one change for each cluster (by moid) with new overrides."""
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
