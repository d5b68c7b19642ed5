"""The hosts on which a VM may start: its own, or its cluster's, minus those that DRS rules forbid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.admission import Admission
from vgpu_cfg.lab.state.inventory import Cluster, Host, LabState, Rule, VirtualMachine


def place(
    state: LabState, vm: VirtualMachine, candidates: list[Host], take: Callable[[Host], Admission]
) -> tuple[Host, Admission]:
    """Return the first host that accepts a VM, and its resources there; raise why none does.

    `take` judges one host, and raises its refusal. Hosts where a rule that should hold would be broken
    come last.
    """
    refused: list[tuple[Host, Exception]] = []
    for host in sorted(
        candidates, key=lambda host: _broken_rule(state, vm, host, mandatory=False) is not None
    ):
        broken = _broken_rule(state, vm, host, mandatory=True)
        if broken is not None:
            refused.append((host, refusals.rule_violated(host, rule_info(broken), broken.name)))
            continue
        try:
            return host, take(host)
        except vmodl.MethodFault as fault:
            refused.append((host, fault))
    raise refusals.no_host(refused)


def places_at_power_on(cluster: Cluster, vm: VirtualMachine) -> bool:
    """Whether DRS chooses the host of a VM anew when it is powered on: at every level but manual."""
    override = cluster.overrides.get(vm.moid)
    if not cluster.drs_enabled or (override is not None and override.drs_enabled is False):
        return False
    level = (override.drs_behavior if override is not None else None) or cluster.drs_behavior
    return level in ("partiallyAutomated", "fullyAutomated")


def _broken_rule(state: LabState, vm: VirtualMachine, host: Host, *, mandatory: bool) -> Rule | None:
    cluster = state.cluster_of(host)
    if not cluster.drs_enabled or (mandatory and state.denies("must-rules-hold")):
        return None
    rules = (rule for rule in cluster.rules if rule.enabled and rule.mandatory == mandatory)
    return next((rule for rule in rules if _breaks(state, cluster, rule, vm, host)), None)


def _breaks(state: LabState, cluster: Cluster, rule: Rule, vm: VirtualMachine, host: Host) -> bool:
    match rule.kind:
        case "vm_host":
            members = {group.name: group.members for group in cluster.groups}
            if vm.moid not in members.get(rule.vm_group, ()):
                return False
            return (host.moid in members.get(rule.host_group, ())) != rule.affine
        case "affinity" | "anti_affinity":
            if vm.moid not in rule.vms:
                return False
            others = (state.find(moid, VirtualMachine) for moid in rule.vms if moid != vm.moid)
            running = [other for other in others if other is not None and other.is_on]
            if rule.kind == "anti_affinity":
                return any(other.host == host.moid for other in running)
            return any(other.host != host.moid for other in running)


def rule_info(rule: Rule) -> Any:
    """Return a rule as vim `ClusterRuleInfo`."""
    common = {
        "key": rule.key,
        "name": rule.name,
        "enabled": rule.enabled,
        "mandatory": rule.mandatory,
        "userCreated": rule.user_created,
        "inCompliance": True,
        "ruleUuid": rule.uuid,
        "status": "green",
    }
    match rule.kind:
        case "affinity":
            return vim.cluster.AffinityRuleSpec(vm=[vim.VirtualMachine(moid) for moid in rule.vms], **common)
        case "anti_affinity":
            return vim.cluster.AntiAffinityRuleSpec(
                vm=[vim.VirtualMachine(moid) for moid in rule.vms], **common
            )
        case "vm_host":
            to = "affineHostGroupName" if rule.affine else "antiAffineHostGroupName"
            return vim.cluster.VmHostRuleInfo(vmGroupName=rule.vm_group, **{to: rule.host_group}, **common)
