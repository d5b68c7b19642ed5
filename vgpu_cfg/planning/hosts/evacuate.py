"""Whether a host can be emptied, who moves, who is switched off, and how many hosts may be down at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.inventory import Host, Inventory
from vgpu_cfg.model.vm import Vm
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.hosts.case import HostCase
from vgpu_cfg.planning.options import PlanOptions
from vgpu_cfg.planning.settings.cluster import EVACUATE_OPTION, HOT_MIGRATE_OPTION
from vgpu_cfg.planning.words import as_counted, gib, listed

MEMORY_SHARE = 0.95
"""The part of a host's memory that VMs can use; what ESXi itself needs is recalled, not looked up."""

_FULLY_AUTOMATED = "fullyAutomated"
_SYSTEM_VM = "vCLS"
"""vSphere Cluster Services: vCenter switches these VMs off by itself when a host enters maintenance mode."""


@dataclass(slots=True)
class Evacuation:
    """What becomes of the VMs that run on a host: DRS moves some, own ones with GPUs are switched off."""

    moved: list[Vm] = field(default_factory=list)
    switched_off: list[Vm] = field(default_factory=list)
    is_possible: bool = True

    @property
    def memory_mib(self) -> int:
        """What the others must carry."""
        return sum(vm.detail.memory_mib or 0 for vm in self.moved if vm.detail is not None)


def running_vms(host: Host, observed: Inventory) -> list[Vm]:
    """Return what runs on a host, but for vCenter's own agents."""
    return sorted(
        (
            vm
            for vm in observed.vms_by_host.get(host.moid, ())
            if vm.is_on and not vm.is_template and not vm.name.startswith(_SYSTEM_VM)
        ),
        key=lambda vm: as_counted(vm.name),
    )


def holds_devices(vm: Vm) -> bool:
    """Whether a VM holds a vGPU or a passed-through device."""
    return vm.detail is not None and bool(vm.detail.vgpus or vm.detail.passthrough)


def plan_graphics_pause(
    case: HostCase, desired: DesiredPlan, observed: Inventory, options: PlanOptions, findings: Findings
) -> Evacuation:
    """Say which VMs a restart of the host's graphics service takes: those with vGPUs, and no others.

    Nothing moves, since the host stays in use. What may not be switched off is a finding.
    """
    found = Evacuation()
    stuck: list[Vm] = []
    for vm in running_vms(case.view.host, observed):
        if vm.detail is None or not vm.detail.vgpus:
            continue
        (found.switched_off if _is_own(vm, desired) else stuck).append(vm)
    for vm in stuck:
        message = f"{vm.name} runs there with a vGPU, and is not this plan's"
        remedy = "have its owner switch it off while the graphics service restarts; vgpu-cfg never does"
        findings.add(Code.HOST_NOT_EMPTIED, case.subject, message, remedy)
        found.is_possible = False
    _check_power_off(found, case, options, findings)
    return found


def plan_evacuation(
    case: HostCase, desired: DesiredPlan, observed: Inventory, options: PlanOptions, findings: Findings
) -> Evacuation:
    """Say who leaves the host and how; what cannot leave is a finding."""
    found = Evacuation()
    stuck: list[Vm] = []
    for vm in running_vms(case.view.host, observed):
        if not holds_devices(vm):
            found.moved.append(vm)
        elif _is_own(vm, desired):
            found.switched_off.append(vm)
        elif _drs_moves(vm, case, observed):
            found.moved.append(vm)
        else:
            stuck.append(vm)
    if stuck:
        _refuse_stuck(case, stuck, findings)
        found.is_possible = False
    _check_power_off(found, case, options, findings)
    if found.moved and not _drs_evacuates(case):
        names = listed((vm.name for vm in found.moved), shown=6)
        message = f"DRS does not move {names} away: {_why_not(case)}"
        remedy = "move or switch them off yourself, or let DRS be fully automated"
        findings.add(Code.HOST_NOT_EMPTIED, case.subject, message, remedy)
        found.is_possible = False
    return found


def _is_own(vm: Vm, desired: DesiredPlan) -> bool:
    """Whether a VM carries this plan's mark and the plan file names it."""
    is_marked = vm.mark is not None and vm.mark.plan == desired.name
    return is_marked and any(one.name == vm.name for one in desired.vms)


def _check_power_off(found: Evacuation, case: HostCase, options: PlanOptions, findings: Findings) -> None:
    if not found.switched_off or options.allow_power_cycle or case.entry.disruption.power_off_own:
        return
    names = listed((vm.name for vm in found.switched_off), shown=6)
    message = f"{names} of this plan must be switched off while the host is prepared"
    remedy = "give --allow-power-cycle, or `disruption: {power_off_own: true}`"
    findings.add(Code.OWN_VMS_OFF, case.subject, message, remedy)
    found.is_possible = False


def hosts_down(
    cases: Sequence[HostCase], evacuations: dict[str, Evacuation], observed: Inventory, findings: Findings
) -> int:
    """Return how many hosts of one cluster may be down at once, at most what the plan file allows.

    The rest of the cluster must have the memory that the VMs of those hosts are configured with. A cluster
    all of whose hosts may be down at once does not limit the wave. 0 where not even one may be down,
    which is a finding.
    """
    allowed = min(case.entry.disruption.max_hosts_down for case in cases)
    names = {case.view.host.moid for case in cases}
    owner = cases[0].view.host.cluster_moid or cases[0].view.host.compute_moid
    peers = [
        host
        for host in observed.hosts
        if (host.cluster_moid or host.compute_moid) == owner and host.is_usable
    ]
    free = {host.moid: _free_mib(host, observed) for host in peers}
    loads = sorted((evacuations[moid].memory_mib for moid in names), reverse=True)
    for count in range(min(allowed, len(cases)), 0, -1):
        # Those that are down are taken to be the ones with the most room, the worst case.
        left = sorted(free.values(), reverse=True)[min(count, len(free)) :]
        if sum(loads[:count]) <= sum(left) or not any(loads[:count]):
            return allowed if count == len(cases) else count
    heaviest = max(cases, key=lambda case: evacuations[case.view.host.moid].memory_mib)
    needed = evacuations[heaviest.view.host.moid].memory_mib
    message = f"its VMs need {gib(needed)}, which the other hosts of the cluster do not have free"
    remedy = "move VMs to another cluster, or switch some off"
    findings.add(Code.CLUSTER_TOO_FULL, heaviest.subject, message, remedy)
    return 0


def _free_mib(host: Host, observed: Inventory) -> int:
    used = sum(vm.detail.memory_mib or 0 for vm in running_vms(host, observed) if vm.detail is not None)
    return max(0, int(host.memory_mib * MEMORY_SHARE) - used)


def _drs_evacuates(case: HostCase) -> bool:
    cluster = case.view.cluster
    return (
        cluster is not None
        and not cluster.is_standalone
        and cluster.drs_enabled
        and cluster.drs_behavior == _FULLY_AUTOMATED
        and len(cluster.host_moids) > 1
    )


def _why_not(case: HostCase) -> str:
    cluster = case.view.cluster
    if cluster is None or cluster.is_standalone or len(cluster.host_moids) < 2:
        return "the host has no cluster with another host"
    if not cluster.drs_enabled:
        return f"DRS is off in {cluster.name}"
    return f"DRS in {cluster.name} is {cluster.drs_behavior or 'not fully automated'}"


def _drs_moves(vm: Vm, case: HostCase, observed: Inventory) -> bool:
    """Whether DRS moves somebody else's vGPU VM when the host enters maintenance mode (KB 88271)."""
    if vm.detail is None or vm.detail.passthrough:
        return False
    is_automated = case.view.cluster_facts.drs_options.get(EVACUATE_OPTION) == "-1"
    is_hot = observed.facts.vcenter_options.get(HOT_MIGRATE_OPTION, "").lower() == "true"
    return is_automated and is_hot


def _refuse_stuck(case: HostCase, stuck: Iterable[Vm], findings: Findings) -> None:
    for vm in stuck:
        detail = vm.detail
        is_fixed = detail is not None and bool(detail.passthrough)
        what = "a passed-through device" if is_fixed else "a vGPU"
        message = f"{vm.name} runs there with {what}, and is not this plan's"
        remedy = (
            "have its owner switch it off; vgpu-cfg never does"
            if is_fixed
            else f"have its owner move or switch it off, or set DRS option {EVACUATE_OPTION} to -1 and "
            f"vCenter's {HOT_MIGRATE_OPTION}"
        )
        findings.add(Code.HOST_NOT_EMPTIED, case.subject, message, remedy)
