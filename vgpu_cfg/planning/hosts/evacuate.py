"""Evacuation of a host: whether it is possible, the moving and stopped VMs, and how many may be down at once.

Belief: drs-empties-hosts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.change import SetClusterOption, SetVCenterOption
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import gib, listed
from vgpu_cfg.planning.estate.ownership import is_marked
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.cluster import EVACUATE_OPTION, EVACUATE_VALUE
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost
from vgpu_cfg.planning.vms.lookup.moving import (
    HOT_MIGRATE_OPTION,
    has_host_devices,
    holds_devices,
    may_hot_migrate,
    running_vms,
)

MEMORY_SHARE = 0.95
"""The part of a host's memory that VMs can use; what ESXi itself needs is recalled, not looked up."""

_FULLY_AUTOMATED = "fullyAutomated"
_VSAN = "vsan"


@dataclass(slots=True)
class Evacuation:
    """The fate of the VMs that run on a host: DRS moves some, own ones with GPUs are switched off."""

    moved: list[Vm] = field(default_factory=list)
    switched_off: list[Vm] = field(default_factory=list)
    is_possible: bool = True

    @property
    def memory_mib(self) -> int:
        """The memory that the others must carry."""
        return sum(vm.detail.memory_mib or 0 for vm in self.moved if vm.detail is not None)


def plan_graphics_pause(
    resolved: ResolvedHost,
    desired: DesiredPlan,
    observed: Inventory,
    options: PlanOptions,
    findings: Findings,
) -> Evacuation:
    """Return the VMs stopped by a restart of the host's graphics service: only those that use a GPU.

    A GPU names its users, also those that share its graphics without a vGPU. Nothing moves, since the host
    stays in use. VMs that may not be switched off are a finding.
    """
    found = Evacuation()
    host = resolved.view.host
    users = {moid for gpu in host.gpus if not gpu.is_passthrough for moid in gpu.vm_moids}
    for vm in running_vms(host, observed):
        if vm.moid in users or (vm.detail is not None and vm.detail.vgpus):
            if _is_own(vm, desired):
                found.switched_off.append(vm)
                continue
            what = "with a vGPU" if vm.detail is not None and vm.detail.vgpus else "on a GPU"
            message = f"{vm.name} is running {what} on the host and {_whose(vm)}"
            remedy = (
                "ask its owner to power the VM off while the graphics service restarts; vgpu-cfg "
                "does not power it off"
            )
            _refuse(found, resolved, findings, message, remedy)
        elif vm.detail is None:
            _refuse_unread(found, resolved, vm, findings)
    _check_power_off(found, resolved, options, findings)
    return found


def plan_evacuation(
    resolved: ResolvedHost,
    desired: DesiredPlan,
    observed: Inventory,
    options: PlanOptions,
    findings: Findings,
) -> Evacuation:
    """Say who leaves the host and how; what cannot leave is a finding."""
    found = Evacuation()
    for vm in running_vms(resolved.view.host, observed):
        if vm.detail is None:
            _refuse_unread(found, resolved, vm, findings)
        elif not holds_devices(vm.detail):
            found.moved.append(vm)
        elif _is_own(vm, desired):
            found.switched_off.append(vm)
        elif _drs_moves(vm, resolved, observed):
            found.moved.append(vm)
        else:
            _refuse_stuck(found, resolved, vm, findings)
    _check_power_off(found, resolved, options, findings)
    _check_drs(found, resolved, findings)
    return found


def needed_options(
    resolved: ResolvedHost, evacuation: Evacuation, changes: Iterable[SetClusterOption | SetVCenterOption]
) -> tuple[str, ...]:
    """Return the ids of the plan's own changes without which DRS would not move the host's vGPU VMs."""
    if not any(vm.detail is not None and vm.detail.vgpus for vm in evacuation.moved):
        return ()
    return tuple(
        change.id
        for change in changes
        if change.option in (EVACUATE_OPTION, HOT_MIGRATE_OPTION)
        and (not change.pools or resolved.view.host.owner_moid in change.pools)
    )


def _is_own(vm: Vm, desired: DesiredPlan) -> bool:
    """Whether the plan file names a VM that is marked as this plan's by its name, unlike a clone of one."""
    return is_marked(vm, desired.identity) and any(one.name == vm.name for one in desired.vms)


def _whose(vm: Vm) -> str:
    return "does not belong to this plan" if vm.manager is None else f"is managed by {vm.manager.words}"


def _check_power_off(
    found: Evacuation, resolved: ResolvedHost, options: PlanOptions, findings: Findings
) -> None:
    if not found.switched_off or options.allow_power_cycle or resolved.entry.disruption.power_off_own:
        return
    names = listed((vm.name for vm in found.switched_off), shown=6)
    message = f"VMs in this plan must be powered off while the host is prepared: {names}"
    remedy = "add --allow-power-cycle, or set `disruption: {power_off_own: true}`"
    findings.add(Code.OWN_VMS_OFF, resolved.subject, message, remedy)
    found.is_possible = False


def hosts_down(
    resolved_hosts: Sequence[ResolvedHost],
    evacuations: dict[str, Evacuation],
    observed: Inventory,
    findings: Findings,
) -> int:
    """Return how many hosts of one cluster may be down at once, at most the plan file's limit.

    The rest of the cluster must have the memory that the VMs of those hosts are configured with; vSAN bears
    one host less, unless all data leaves it first; an image is applied to one host at a time; and of hosts
    that run VMs one stays up. A cluster all of whose hosts may be down at once does not limit the wave. 0 if
    not even one may be down, which is a finding.
    """
    allowed = min(resolved.entry.disruption.max_hosts_down for resolved in resolved_hosts)
    moids = {resolved.view.host.moid for resolved in resolved_hosts}
    cluster = [host for host in observed.hosts if host.owner_moid == resolved_hosts[0].view.host.owner_moid]
    # A host of the plan that a killed run left in maintenance mode comes back before the next one goes.
    peers = [host for host in cluster if host.is_usable or host.moid in moids]
    free = {host.moid: _free_mib(host, observed) for host in peers}
    loads = sorted((evacuations[moid].memory_mib for moid in moids), reverse=True)
    most = min(allowed, len(resolved_hosts))
    takes_data_away = all(one.entry.disruption.vsan == "evacuateAllData" for one in resolved_hosts)
    is_by_image = any(one.setting.by_image(one.desired) for host in resolved_hosts for one in host.drifts)
    if is_by_image or (_keeps_data(cluster, observed) and not takes_data_away):
        allowed = most = 1
    busy = [host for host in peers if running_vms(host, observed)]
    if len(peers) > 1 and (any(evacuations[moid].moved for moid in moids) or len(busy) > 1):
        most = min(most, len(peers) - 1)
    for count in range(most, 0, -1):
        # Those that are down are taken to be the ones with the most room, the worst case.
        left = sorted(free.values(), reverse=True)[min(count, len(free)) :]
        if sum(loads[:count]) <= sum(left) or not any(loads[:count]):
            return allowed if count == len(resolved_hosts) else count
    heaviest = max(resolved_hosts, key=lambda resolved: evacuations[resolved.view.host.moid].memory_mib)
    needed = evacuations[heaviest.view.host.moid].memory_mib
    message = (
        f"its VMs need {gib(needed)} of memory, but the cluster's other hosts do not have enough free memory"
    )
    remedy = "move some VMs to another cluster, or power them off"
    findings.add(Code.CLUSTER_TOO_FULL, heaviest.subject, message, remedy)
    return 0


def _keeps_data(cluster: Iterable[Host], observed: Inventory) -> bool:
    """Whether a host of the cluster carries vSAN's traffic, so that vSAN keeps data on its hosts."""
    facts = (observed.facts.hosts.get(host.moid) for host in cluster)
    return any(_VSAN in vmknic.services for one in facts if one is not None for vmknic in one.vmknics)


def _free_mib(host: Host, observed: Inventory) -> int:
    used = sum(vm.detail.memory_mib or 0 for vm in running_vms(host, observed) if vm.detail is not None)
    return max(0, int(host.memory_mib * MEMORY_SHARE) - used)


def _check_drs(found: Evacuation, resolved: ResolvedHost, findings: Findings) -> None:
    """Check that DRS moves the evacuated VMs: by the cluster's setting, and by the VM's own."""
    own = resolved.view.cluster_facts.drs_overrides
    cluster = resolved.view.cluster
    if why := _why_none_moves(resolved):
        left = found.moved
    else:
        left = [vm for vm in found.moved if vm.moid not in own]
        behavior = cluster.drs_behavior if cluster is not None else ""
        if behavior == _FULLY_AUTOMATED:
            left = []
        elif cluster is not None:
            why = f"DRS in {cluster.name} is {behavior or 'not fully automated'}"
        for vm in found.moved:
            if own.get(vm.moid, _FULLY_AUTOMATED) == _FULLY_AUTOMATED:
                continue
            message = (
                f"DRS does not migrate {vm.name} because the cluster has a VM override for it "
                f"({own[vm.moid]})"
            )
            remedy = (
                "ask its owner to move the VM or power it off, or remove the VM from the "
                "cluster's VM overrides"
            )
            _refuse(found, resolved, findings, message, remedy)
    if left:
        names = listed((vm.name for vm in left), shown=6)
        remedy = "move these VMs or power them off manually, or set DRS to fully automated"
        _refuse(found, resolved, findings, f"DRS does not migrate {names}: {why}", remedy)


def _why_none_moves(resolved: ResolvedHost) -> str:
    """Say why DRS moves no VM at all from the host; empty where it can."""
    cluster = resolved.view.cluster
    if cluster is None or cluster.is_standalone or len(cluster.host_moids) < 2:
        return "the host's cluster contains no other host"
    return "" if cluster.drs_enabled else f"DRS is off in {cluster.name}"


def _drs_moves(vm: Vm, resolved: ResolvedHost, observed: Inventory) -> bool:
    """Whether DRS moves another owner's vGPU VM when the host enters maintenance mode (KB 88271)."""
    if vm.detail is None or has_host_devices(vm.detail):
        return False
    is_automated = resolved.view.cluster_facts.drs_options.get(EVACUATE_OPTION) == EVACUATE_VALUE
    return is_automated and may_hot_migrate(observed)


def _refuse_stuck(found: Evacuation, resolved: ResolvedHost, vm: Vm, findings: Findings) -> None:
    is_tied = vm.detail is not None and has_host_devices(vm.detail)
    what = "a vGPU"
    if is_tied:
        is_whole = vm.detail is not None and bool(vm.detail.passthrough)
        what = "a passthrough device" if is_whole else "an SR-IOV virtual function"
    message = f"{vm.name} is running with {what} on the host and {_whose(vm)}"
    remedy = (
        "ask its owner to power the VM off; vgpu-cfg does not power it off"
        if is_tied
        else f"ask its owner to move the VM or power it off, or set the DRS option {EVACUATE_OPTION} "
        "to -1 and "
        f"enable the vCenter setting {HOT_MIGRATE_OPTION}"
    )
    _refuse(found, resolved, findings, message, remedy)


def _refuse_unread(found: Evacuation, resolved: ResolvedHost, vm: Vm, findings: Findings) -> None:
    message = (
        f"{vm.name} is running on the host, but vgpu-cfg cannot determine whether the VM uses a host device"
    )
    remedy = "grant the account read access to the VM, or ask its owner to power it off"
    _refuse(found, resolved, findings, message, remedy)


def _refuse(found: Evacuation, resolved: ResolvedHost, findings: Findings, message: str, remedy: str) -> None:
    findings.add(Code.HOST_NOT_EMPTIED, resolved.subject, message, remedy)
    found.is_possible = False
