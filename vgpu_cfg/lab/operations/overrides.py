"""What a cluster sets for one of its VMs: the level of DRS, and what HA does with it.

After the vSphere API reference. ClusterDrsVmConfigSpec: "add" overwrites what is there, "edit" changes
what it sets and leaves the rest, "edit" and "remove" want something to be there. ClusterDasVmConfigInfo,
ClusterDasVmSettings and ClusterVmToolsMonitoringSettings: a field that is unset changes nothing. For
ClusterDasVmConfigSpec the reference names no operations; "add" where there is one already is refused, as
govmomi's vcsim refuses it. That it is InvalidArgument that refuses is vcsim's word, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.availability import check_settings
from vgpu_cfg.lab.operations.refs import moid_of, resolve
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import Cluster, LabState, VirtualMachine, VmOverride


def change_drs(state: LabState, cluster: Cluster, change: Any) -> None:
    """Apply one ClusterDrsVmConfigSpec. Raises InvalidArgument."""
    path = "spec.drsVmConfigSpec"
    moid = _vm_of(state, cluster, change, path)
    old = cluster.overrides.get(moid, VmOverride())
    if change.operation != "add" and not old.has_drs:
        raise refusals.bad_argument(f"{path}.operation")
    if change.operation == "remove":
        new = replace(old, drs_enabled=None, drs_behavior=None)
    else:
        base = replace(old, drs_enabled=None, drs_behavior=None) if change.operation == "add" else old
        new = replace(
            base,
            drs_enabled=base.drs_enabled if change.info.enabled is None else bool(change.info.enabled),
            drs_behavior=str(change.info.behavior) if change.info.behavior else base.drs_behavior,
        )
        if not new.has_drs:
            new = replace(new, drs_enabled=True)
    _keep(cluster, moid, new)


def change_das(state: LabState, cluster: Cluster, change: Any) -> None:
    """Apply one ClusterDasVmConfigSpec. Raises InvalidArgument.

    A restart priority is taken from `dasSettings`, else from the deprecated property beside it.
    """
    path = "spec.dasVmConfigSpec"
    moid = _vm_of(state, cluster, change, path)
    old = cluster.overrides.get(moid, VmOverride())
    if (change.operation == "add") == (old.das_settings is not None):
        raise refusals.bad_argument(f"{path}.operation")
    if change.operation == "remove":
        _keep(cluster, moid, replace(old, das_settings=None))
        return
    sent = merged(vim.cluster.DasVmSettings(), change.info.dasSettings)
    if not sent.restartPriority and change.info.restartPriority:
        sent.restartPriority = str(change.info.restartPriority)
    check_settings(sent, f"{path}.info.dasSettings")
    _keep(cluster, moid, replace(old, das_settings=merged(old.das_settings, sent)))


def _vm_of(state: LabState, cluster: Cluster, change: Any, path: str) -> str:
    """Return the moid of the VM that a change is about. Raises InvalidArgument for one of elsewhere."""
    if change.operation == "remove":
        key = change.removeKey
        return key if isinstance(key, str) else moid_of(key)
    vm = resolve(state, change.info.key, VirtualMachine)
    if vm.host not in cluster.hosts:
        raise refusals.bad_argument(f"{path}.info.key")
    return vm.moid


def _keep(cluster: Cluster, moid: str, override: VmOverride) -> None:
    if override.has_drs or override.das_settings is not None:
        cluster.overrides[moid] = override
    else:
        cluster.overrides.pop(moid, None)
