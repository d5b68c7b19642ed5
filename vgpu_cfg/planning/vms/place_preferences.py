"""Obstacles to the places of VMs: the rules and preferences of `place`, and other DRS rules.

Source: vSphere API reference, ClusterRuleInfo.mandatory (a mandatory rule keeps a VM from being powered on or
migrated where it does not hold) and ClusterVmHostRuleInfo.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.model.observed.drs import ClusterRule, VmHostRule
from vgpu_cfg.model.observed.inventory import NVIDIA_VENDOR_ID, Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.model.wording import counted, listed, node_list
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.placement.candidates import forbidden_by, host_group_not_found
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.vms.checks.place_checks import with_way
from vgpu_cfg.planning.vms.lookup.affinity import assignable_nodes, held_nodes
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.rules import is_of_plan

Residents = Mapping[tuple[str, str], Sequence[ResolvedVm]]
"""The VMs of the plan that have a host, by line and host name."""

_R = TypeVar("_R", ClusterRule, VmHostRule)


def check_host_names(resolved: ResolvedVm, hosts: Sequence[Host], findings: Findings) -> None:
    """Warn of a name or glob of `place` that matches no host: it may be misspelled.

    If none of `place.hosts` matches, no host is left, which is an error of the VM's place.
    """
    place = resolved.desired.place
    absent = {
        key: [glob for glob in globs if not any(matches_any(host.name, (glob,)) for host in hosts)]
        for key, globs in (("hosts", place.hosts), ("not_hosts", place.not_hosts))
    }
    if len(absent["hosts"]) == len(place.hosts):
        del absent["hosts"]
    for key, globs in absent.items():
        for glob in globs:
            message = f"`place.{key}` contains {glob}, which does not match any host"
            remedy = "compare it with the host names"
            findings.add_vm(Code.NO_HOST_MATCHES, resolved.desired, message, remedy, Severity.WARNING)


def check_existing_place(resolved: ResolvedVm, cluster: Cluster | None, findings: Findings) -> None:
    """Check a VM that exists on the host where it is: whether `place` would let a new one go there."""
    vm, place = resolved.desired, resolved.desired.place
    if "place" in vm.ignore or resolved.host is None:
        return
    if place.host_group and not any(one.host_group(place.host_group) for one in resolved.clusters):
        code, message, remedy = host_group_not_found(place.host_group, resolved.clusters)
        findings.add_vm(code, vm, message, remedy)
        return
    if cluster is None or cluster.moid not in {one.moid for one in resolved.clusters}:
        return
    reason = forbidden_by(place, resolved.host, cluster)
    if not reason:
        return
    message = f"it is on {resolved.host.name}, {reason}"
    message, remedy = with_way(resolved, message)
    is_ruled = cluster.drs_enabled and not _is_member(place.host_group, resolved.host, cluster)
    severity = None
    if is_ruled and place.must and _starts_here(resolved):
        message += "; the plan's DRS rule prevents it from starting on this host"
        severity = Severity.ERROR
    elif is_ruled and cluster.drs_behavior == "fullyAutomated":
        message += "; once the plan's rule exists, DRS may move it"
    findings.add_vm(Code.HOST_FORBIDDEN, vm, message, remedy, severity)


def check_others_rules(
    resolved: ResolvedVm, cluster: Cluster | None, observed: Inventory, plan: str, findings: Findings
) -> None:
    """Name the mandatory DRS rules, other than the plan's, that forbid a VM the host where it is."""
    if resolved.existing is None or resolved.host is None or cluster is None or not cluster.drs_enabled:
        return
    vm, host = resolved.existing, resolved.host
    found = [
        *(
            (rule.name, why)
            for rule in _held(cluster.rules, plan)
            if (why := _apart(rule, vm, host, observed))
        ),
        *(
            (rule.name, why)
            for rule in _held(cluster.host_rules, plan)
            if (why := _away(rule, vm, host, cluster))
        ),
    ]
    severity = Severity.ERROR if _starts_here(resolved) else None
    for name, why in found:
        message = f"the mandatory DRS rule {name} in {cluster.name} excludes it from {host.name}: {why}"
        remedy = "change the rule or its groups in vCenter, or move the VM manually"
        findings.add_vm(Code.RULE_OF_OTHERS, resolved.desired, message, remedy, severity)


def check_spread_numa(resolved: ResolvedVm, fit: Fit, initial: HostState, findings: Findings) -> None:
    """Warn where ESXi may put two VMs of a line on one NUMA node, since it chooses the GPU."""
    vm = resolved.desired
    if vm.place.spread is not Spread.NUMA or vm.numa.policy is not NumaPolicy.FOLLOW_GPU:
        return
    per_node: dict[int | None, int] = {}
    for gpu in initial.gpus:
        if gpu.pci_id in resolved.choosable:
            per_node[gpu.node] = per_node.get(gpu.node, 0) + 1
    is_whole = all(need.is_full for need in fit.variant) and max(per_node.values(), default=0) <= 1
    nodes = set(per_node) if not is_whole else set()
    if len(nodes) <= 1:
        nodes = assignable_nodes(resolved, initial)
    if len(nodes) > 1:
        known = node_list(node for node in nodes if node is not None)
        message = (
            f"ESXi selects a VM's GPU at power-on, on NUMA node {known} of {initial.host.name}; two of "
            "these VMs may be on the same node"
        )
        remedy = "select a GPU on each node with `pin` (passthrough), or spread the VMs over hosts"
        findings.add_vm(Code.SPREAD_NUMA_NOT_PROMISED, vm, message, remedy)


def check_numa_residents(residents: Residents, findings: Findings) -> None:
    """Report running VMs of a line that should each have a NUMA node of their own and share one."""
    for (_, host_name), resolved_vms in residents.items():
        wanted = [
            resolved
            for resolved in resolved_vms
            if resolved.desired.place.spread is Spread.NUMA and resolved.keeps_gpus
        ]
        by_node: dict[int, list[ResolvedVm]] = {}
        for resolved in wanted:
            for node in held_nodes(resolved) or ():
                by_node.setdefault(node, []).append(resolved)
        for node, together in sorted(by_node.items()):
            if len(together) < 2:
                continue
            names = listed((resolved.name for resolved in together), shown=6)
            is_must = any(resolved.desired.place.must for resolved in together)
            for resolved in together:
                message = f"{names} should be on separate NUMA nodes but share node {node} of {host_name}"
                remedy = "power them off and on one at a time, or select GPUs with `pin`"
                severity = None if is_must else Severity.INFO
                findings.add_vm(Code.SPREAD_UNMET, resolved.desired, message, remedy, severity)


def check_pack(residents: Residents, findings: Findings) -> None:
    """Report lines that should go to few hosts and go to more than one."""
    lines: dict[str, list[str]] = {}
    packed: dict[str, list[ResolvedVm]] = {}
    for (line, host_name), resolved_vms in residents.items():
        if any(resolved.desired.place.pack for resolved in resolved_vms):
            packed.setdefault(line, []).extend(resolved_vms)
        lines.setdefault(line, []).append(host_name)
    for line, resolved_vms in packed.items():
        hosts = sorted(set(lines[line]))
        if len(hosts) < 2:
            continue
        message = f"the VMs in this item are on {counted(len(hosts), 'host')}: {listed(hosts, shown=6)}"
        remedy = "free up capacity on one of them, and move the VMs manually"
        for resolved in resolved_vms:
            findings.add_vm(Code.PACK_UNMET, resolved.desired, message, remedy)


def check_keep_free(
    wanted: Iterable[tuple[ResolvedVm, Sequence[Host]]],
    observed: Inventory,
    leaving: Collection[str],
    findings: Findings,
) -> None:
    """Warn where more hosts hold GPU VMs already than `keep_free` allows.

    `wanted` are VMs that ask for free hosts, each with the hosts that it might go to; of VMs with the
    same hosts the largest number counts. `leaving` are moids of VMs that the plan deletes.
    """
    groups: dict[tuple[str, ...], list[ResolvedVm]] = {}
    hosts: dict[tuple[str, ...], Sequence[Host]] = {}
    for resolved, might in wanted:
        moids = tuple(sorted(host.moid for host in might))
        groups.setdefault(moids, []).append(resolved)
        hosts[moids] = might
    for moids, resolved_vms in groups.items():
        requested = max(resolved.desired.place.keep_free for resolved in resolved_vms)
        busy = [host.name for host in hosts[moids] if _has_gpu_vms(host, observed, leaving)]
        free = len(moids) - len(busy)
        if free >= requested:
            continue
        message = (
            f"`keep_free` requires {counted(requested, 'host')} without GPU VMs, but only {free} of "
            f"{len(moids)} {('is' if free == 1 else 'are')} free"
        )
        if busy:
            message += f"; GPU VMs run on {listed(sorted(busy), shown=6)}"
        remedy = "move VMs manually, specify more hosts, or reduce `keep_free`"
        for resolved in resolved_vms:
            findings.add_vm(Code.KEEP_FREE_UNMET, resolved.desired, message, remedy)


def _is_member(host_group: str | None, host: Host, cluster: Cluster) -> bool:
    """Whether a host is in a host group; of none that is not named, every host is."""
    group = cluster.host_group(host_group) if host_group else None
    return not host_group or (group is not None and host.moid in group.host_moids)


def _starts_here(resolved: ResolvedVm) -> bool:
    """Whether the plan powers a VM on where it is registered."""
    return resolved.fit is not None and resolved.desired.power is DesiredPower.ON


def _held(rules: Iterable[_R], plan: str) -> Iterator[_R]:
    return (
        rule for rule in rules if rule.is_enabled and rule.is_mandatory and not is_of_plan(rule.name, plan)
    )


def _apart(rule: ClusterRule, vm: Vm, host: Host, observed: Inventory) -> str:
    """Say in words why a rule between VMs forbids one the host, "" where it does not."""
    if vm.moid not in rule.vm_moids:
        return ""
    known = [
        observed.vm_by_moid[moid] for moid in rule.vm_moids if moid != vm.moid and moid in observed.vm_by_moid
    ]
    running = [other for other in known if other.is_on]
    if rule.kind == "anti_affinity":
        names = [other.name for other in running if other.host_moid == host.moid]
        return f"that host runs {listed(names)}" if names else ""
    names = [other.name for other in running if other.host_moid != host.moid]
    return f"another host runs {listed(names)}" if names else ""


def _away(rule: VmHostRule, vm: Vm, host: Host, cluster: Cluster) -> str:
    """Say in words why a rule to a host group forbids a VM the host, "" where it does not."""
    group = cluster.vm_group(rule.vm_group)
    if group is None or vm.moid not in group.vm_moids:
        return ""
    members = {one.name: one.host_moids for one in cluster.host_groups}
    if rule.host_group in members and host.moid not in members[rule.host_group]:
        return f"only hosts in the group {rule.host_group} are allowed"
    if host.moid in members.get(rule.avoided_group, ()):
        return f"hosts in the group {rule.avoided_group} are not allowed"
    return ""


def _has_gpu_vms(host: Host, observed: Inventory, leaving: Collection[str]) -> bool:
    if any(moid not in leaving for gpu in host.gpus for moid in gpu.vm_moids):
        return True
    gpus = {gpu.pci_id for gpu in host.gpus} | {pci.pci_id for pci in host.pci_devices if pci.is_gpu}
    return any(
        vm.is_on and vm.moid not in leaving and _holds_gpu(vm, gpus)
        for vm in observed.vms_by_host.get(host.moid, ())
    )


def _holds_gpu(vm: Vm, gpus: Collection[str]) -> bool:
    if vm.detail is None:
        return False
    passed = vm.detail.passthrough
    is_given = any((device.assigned_id or device.pci_id) in gpus for device in passed)
    is_asked = any(not (one.assigned_id or one.pci_id) and _asks_nvidia(one.allowed) for one in passed)
    return bool(vm.detail.vgpus) or is_given or is_asked


def _asks_nvidia(allowed: Iterable[tuple[int, int]]) -> bool:
    return any(vendor == NVIDIA_VENDOR_ID for vendor, _ in allowed)
