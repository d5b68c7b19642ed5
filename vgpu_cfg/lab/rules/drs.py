"""The hosts on which a VM may start under DRS rules, and those to which it may move as it runs.

Both texts of refusals are known from the field. That the first is MigrationDisabled is derived: it begins
with that fault's own text. In which order a vCenter looks at these things is not known.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.admission import Admission, admit
from vgpu_cfg.lab.rules.gpu_load import Pick
from vgpu_cfg.lab.state.devices import dynamic_of, fixed_of, vgpus_of
from vgpu_cfg.lab.state.inventory import Cluster, Gpu, Host, LabState, Rule, VirtualMachine


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


HOT_MIGRATE = "vgpu.hotmigrate.enabled"
"""vCenter's advanced setting without which no vGPU moves as it runs."""

_PLUGIN_PARAMETER = re.compile(r"pciPassthru(\d+)\.cfg\.enable_(uvm|debugging|profiling)", re.IGNORECASE)
_FUNCTIONS = (vim.vm.device.VirtualSriovEthernetCard, vim.vm.device.VirtualVmxnet3Vrdma)


def check_may_leave(state: LabState, vm: VirtualMachine, source: Host) -> None:
    """Raise where a running VM has what does not move: functions of the host, plugin parameters, any vGPU."""
    if holds_functions(vm) or _turned_on(vm):
        raise refusals.migration_feature(source, is_source=True)
    if vgpus_of(vm.devices) and state.settings.get(HOT_MIGRATE) is not True:
        raise refusals.no_hot_migration()


def holds_functions(vm: VirtualMachine) -> bool:
    """Whether a VM has a PCI function, physical or virtual, of its host. PVRDMA counts; that is assumed."""
    has_nic = any(isinstance(device, _FUNCTIONS) for device in vm.devices.values())
    return has_nic or bool(fixed_of(vm.devices) or dynamic_of(vm.devices))


def _turned_on(vm: VirtualMachine) -> bool:
    """Whether unified memory, debugging or profiling is on for one of the VM's vGPUs."""
    keys = {key - 13000 for key, _ in vgpus_of(vm.devices)}
    found = ((_PLUGIN_PARAMETER.fullmatch(key), value) for key, value in vm.extra_config.items())
    return any(match is not None and int(match[1]) in keys and value == "1" for match, value in found)


def place_running(
    state: LabState, vm: VirtualMachine, candidates: list[Host], pick: Pick
) -> tuple[Host, Admission]:
    """Return the first host that accepts a running VM, and its resources there; raise why none does.

    Its vGPUs go to GPUs of the same board with the same ECC state; MIG and NVLink go with the profile and
    the group.
    """
    source = state.get(vm.host, Host)
    before = {use.device_key: gpu for gpu in source.gpus for use in gpu.uses if use.vm == vm.moid}

    def is_alike(key: int, gpu: Gpu) -> bool:
        old = before[key]
        return (gpu.board, gpu.ecc_enabled, gpu.nvswitch) == (old.board, old.ecc_enabled, old.nvswitch)

    def take(host: Host) -> Admission:
        try:
            return admit(state, vm, host, pick, suits=is_alike)
        except vim.fault.InsufficientGraphicsResourcesFault:
            admit(state, vm, host, pick)
        vm.log.append(f"The GPUs of '{host.name}' differ from those that the virtual machine runs on.")
        raise refusals.migration_feature(host, is_source=False)

    return place(state, vm, candidates, take)
