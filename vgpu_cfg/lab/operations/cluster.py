"""A cluster changed by a spec, all of it or nothing: services, DRS rules, groups, overrides, HA settings.

ReconfigureCluster_Task is the older of the two methods (vSphere API reference, ClusterComputeResource): its
spec has all but groups. Everything below on overrides and HA is after the same reference, unless it says
otherwise.

A cluster's overrides for one of its VMs are the level of DRS, and HA settings. ClusterDrsVmConfigSpec: "add"
overwrites the current override, "edit" changes the fields it sets and leaves the rest, "edit" and "remove"
require an override. ClusterDasVmConfigInfo, ClusterDasVmSettings and ClusterVmToolsMonitoringSettings: a
field that is unset changes nothing. For ClusterDasVmConfigSpec the reference names no operations; "add" where
there is one already is refused, as govmomi's vcsim refuses it. That it is InvalidArgument that refuses is
vcsim's word, too.

A cluster's HA settings for all of its VMs are restart priority, isolation response, and monitoring
(ClusterDasConfigInfo and ClusterDasVmSettings): a field that is unset changes nothing. Admission control and
the component protection are kept and shown, and judge nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import moid_of, resolve, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.cluster import DISABLED
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import Cluster, Group, Host, LabState, Rule, VirtualMachine, VmOverride

_CHANGED = ("rules", "groups", "overrides", "drs_options", "drs_enabled", "drs_behavior", "ha_enabled", "das")
"""The changes of a spec to a cluster."""
_OF_ALL = ("drs_options", "drs_enabled", "drs_behavior", "ha_enabled", "das")
"""The part that all VMs of the cluster share."""

PRIORITIES = (DISABLED, "lowest", "low", "medium", "high", "highest", "clusterRestartPriority")
"""The words of vim `ClusterDasVmSettingsRestartPriority`."""
MONITORING = ("vmMonitoringDisabled", "vmMonitoringOnly", "vmAndAppMonitoring")
"""Those of vim `ClusterDasConfigInfoVmMonitoringState`."""
_RESPONSES = ("none", "powerOff", "shutdown", "clusterIsolationResponse")
"""Those of vim `ClusterDasVmSettingsIsolationResponse`."""
_STATES = ("enabled", DISABLED)
"""Those of vim `ClusterDasConfigInfoServiceState`."""


@task(
    "ComputeResource",
    "ReconfigureComputeResource_Task",
    description_id="ComputeResource.reconfigureEx",
    seconds=1.0,
)
def reconfigure_cluster(lab: Simulation, cluster: Cluster, *, spec: Any, modify: bool) -> None:
    """Apply a ClusterConfigSpecEx. Only `modify` true is taken: the lab resets no cluster."""
    if not modify:
        raise refusals.bad_argument("modify")
    if cluster.is_standalone or not isinstance(spec, vim.cluster.ConfigSpecEx | vim.cluster.ConfigSpec):
        raise refusals.bad_argument("spec")
    draft = replace(
        cluster,
        rules=list(cluster.rules),
        groups=list(cluster.groups),
        overrides=dict(cluster.overrides),
        drs_options=dict(cluster.drs_options),
    )
    _apply(lab, draft, spec)
    for name in _OF_ALL:
        if getattr(draft, name) != getattr(cluster, name):
            lab.note(cluster, "cluster settings", name)
    for name in _CHANGED:
        setattr(cluster, name, getattr(draft, name))
    lab.state.touch(cluster)


task(
    "ClusterComputeResource",
    "ReconfigureCluster_Task",
    description_id="ClusterComputeResource.reconfigure",
    seconds=1.0,
)(reconfigure_cluster)


def _apply(lab: Simulation, cluster: Cluster, spec: Any) -> None:
    groups = getattr(spec, "groupSpec", None) or ()
    for change in groups:
        _change_group(lab.state, cluster, change)
    for change in spec.rulesSpec or ():
        _change_rule(lab.state, cluster, change)
    for change in spec.drsVmConfigSpec or ():
        change_drs(lab.state, cluster, change)
    for change in spec.dasVmConfigSpec or ():
        change_das(lab.state, cluster, change)
    change_services(lab.state, cluster, spec)


def change_services(state: LabState, cluster: Cluster, spec: Any) -> None:
    """Set a spec's values for DRS and HA."""
    drs, das = spec.drsConfig, spec.dasConfig
    if drs is not None:
        if drs.enabled is not None:
            cluster.drs_enabled = bool(drs.enabled)
        if drs.defaultVmBehavior:
            cluster.drs_behavior = str(drs.defaultVmBehavior)
        for option in drs.option or ():
            _set_option(state, cluster, option.key, option.value)
    if das is not None:
        change_availability(cluster, das)


def _set_option(state: LabState, cluster: Cluster, key: str, value: Any) -> None:
    """Set an advanced option of DRS; an empty value removes it, which is assumed, not proven."""
    if value in (None, "") and not state.denies("empty-option-removes-it"):
        cluster.drs_options.pop(key, None)
    else:
        cluster.drs_options[key] = str(value or "")


def _change_rule(state: LabState, cluster: Cluster, change: Any) -> None:
    match change.operation:
        case "remove":
            cluster.rules.remove(_rule_by_key(cluster, change.removeKey))
        case "add":
            rule = _read_rule(state, cluster, change.info)
            if any(other.name == rule.name for other in cluster.rules):
                raise refusals.duplicate_name(rule.name, vim.ClusterComputeResource(cluster.moid))
            rule.key = max((other.key for other in cluster.rules), default=0) + 1
            rule.uuid = str(
                uuid5(NAMESPACE_URL, f"{state.instance_uuid}.{cluster.moid}.{state.revision}.{rule.key}")
            )
            cluster.rules.append(rule)
        case "edit":
            old = _rule_by_key(cluster, change.info.key)
            rule = _read_rule(state, cluster, change.info)
            rule.key, rule.uuid = old.key, old.uuid
            cluster.rules[cluster.rules.index(old)] = rule
        case _:
            raise refusals.bad_argument("spec.rulesSpec.operation")


def _rule_by_key(cluster: Cluster, key: Any) -> Rule:
    found = next((rule for rule in cluster.rules if key is not None and rule.key == int(key)), None)
    if found is None:
        raise refusals.bad_argument("spec.rulesSpec.key")
    return found


def _read_rule(state: LabState, cluster: Cluster, info: Any) -> Rule:
    rule = Rule(
        key=0,
        name=info.name or "",
        kind="affinity",
        uuid="",
        enabled=True if info.enabled is None else bool(info.enabled),
        mandatory=bool(info.mandatory),
        user_created=True if info.userCreated is None else bool(info.userCreated),
    )
    if not rule.name:
        raise refusals.bad_argument("spec.rulesSpec.info.name")
    match info:
        case vim.cluster.AntiAffinityRuleSpec():
            rule.kind, rule.vms = "anti_affinity", _vms(state, cluster, info.vm)
        case vim.cluster.AffinityRuleSpec():
            rule.vms = _vms(state, cluster, info.vm)
        case vim.cluster.VmHostRuleInfo():
            rule.kind, rule.vm_group = "vm_host", info.vmGroupName or ""
            rule.affine = bool(info.affineHostGroupName)
            rule.host_group = info.affineHostGroupName or info.antiAffineHostGroupName or ""
            kinds = {group.name: group.kind for group in cluster.groups}
            if (kinds.get(rule.vm_group), kinds.get(rule.host_group)) != ("vm", "host"):
                raise refusals.bad_argument("spec.rulesSpec.info")
        case _:
            raise refusals.bad_argument("spec.rulesSpec.info")
    return rule


def _vms(state: LabState, cluster: Cluster, references: Any) -> tuple[str, ...]:
    vms = [resolve(state, reference, VirtualMachine) for reference in references or ()]
    if len(vms) < 2 or any(vm.host not in cluster.hosts for vm in vms):
        raise refusals.bad_argument("spec.rulesSpec.info.vm")
    return tuple(dict.fromkeys(vm.moid for vm in vms))


def _change_group(state: LabState, cluster: Cluster, change: Any) -> None:
    name = str(change.removeKey) if change.operation == "remove" else change.info.name
    old = next((group for group in cluster.groups if group.name == name), None)
    if (old is None) != (change.operation == "add"):
        raise refusals.bad_argument("spec.groupSpec.info.name")
    if old is not None:
        cluster.groups.remove(old)
    if change.operation == "remove":
        return
    info = change.info
    if isinstance(info, vim.cluster.VmGroup):
        vms = [resolve(state, vm, VirtualMachine) for vm in info.vm or ()]
        if state.denies("stopped-vm-in-a-group") and not all(vm.is_on for vm in vms):
            raise refusals.bad_argument("spec.groupSpec.info.vm")
        _check_within(cluster, (vm.host for vm in vms), "vm")
        cluster.groups.append(Group(name, "vm", tuple(vm.moid for vm in vms)))
    else:
        hosts = [resolve(state, host, Host).moid for host in info.host or ()]
        _check_within(cluster, hosts, "host")
        cluster.groups.append(Group(name, "host", tuple(hosts)))


def _check_within(cluster: Cluster, hosts: Iterable[str | None], path: str) -> None:
    """Raise where a group's member is not of the cluster."""
    if any(host not in cluster.hosts for host in hosts):
        raise refusals.bad_argument(f"spec.groupSpec.info.{path}")


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

    A restart priority is taken from `dasSettings`, else from the deprecated property next to it.
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
    is_new = not vm.is_on and state.denies("overrides-for-new-vms")
    if vm.host not in cluster.hosts or is_new:
        raise refusals.bad_argument(f"{path}.info.key")
    return vm.moid


def _keep(cluster: Cluster, moid: str, override: VmOverride) -> None:
    if override.has_drs or override.das_settings is not None:
        cluster.overrides[moid] = override
    else:
        cluster.overrides.pop(moid, None)


def change_availability(cluster: Cluster, sent: Any) -> None:
    """Apply a ClusterDasConfigInfo. Raises InvalidArgument for a word that there is not."""
    path = "spec.dasConfig"
    check_word(sent.hostMonitoring, _STATES, f"{path}.hostMonitoring")
    check_word(sent.vmMonitoring, MONITORING, f"{path}.vmMonitoring")
    if sent.defaultVmSettings is not None:
        check_settings(sent.defaultVmSettings, f"{path}.defaultVmSettings")
    if sent.enabled is not None:
        cluster.ha_enabled = bool(sent.enabled)
    new = merged(cluster.das or vim.cluster.DasConfigInfo(), sent)
    options = {one.key: one for one in (*(cluster.das.option if cluster.das else ()), *(sent.option or ()))}
    new.option = [one for one in options.values() if one.value not in (None, "")]
    cluster.das = new


def check_settings(settings: Any, path: str) -> None:
    """Raise InvalidArgument for a word of a ClusterDasVmSettings that there is not."""
    check_word(settings.restartPriority, PRIORITIES, f"{path}.restartPriority")
    check_word(settings.isolationResponse, _RESPONSES, f"{path}.isolationResponse")
    monitoring = settings.vmToolsMonitoringSettings
    if monitoring is not None:
        check_word(monitoring.vmMonitoring, MONITORING, f"{path}.vmToolsMonitoringSettings.vmMonitoring")


def check_word(word: str | None, words: tuple[str, ...], path: str) -> None:
    """Raise InvalidArgument for a word that is set and none of some."""
    if word and word not in words:
        raise refusals.bad_argument(path)
