"""What DRS moves from a host that enters maintenance mode, and where to.

Fully automated DRS moves ordinary VMs. One with a vGPU it moves only where the cluster's option
`VgpuMMAutomationTimeoutSecs` is -1 (vCenter 7.0 U3 and later) and vCenter's `vgpu.hotmigrate.enabled`
is true; one that holds a PCI function whole, or a virtual function, never. What keeps any VM from moving as
it runs (`rules.migration`) keeps it from DRS, too.
"""

from __future__ import annotations

from pyVmomi import vmodl

from vgpu_cfg.lab.operations.vms.migrate import move_running
from vgpu_cfg.lab.operations.vms.power import is_in_reach
from vgpu_cfg.lab.rules import admission, migration
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import vgpus_of
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine

VGPU_OPTION = "VgpuMMAutomationTimeoutSecs"
VGPU_OPTION_FROM = (7, 0, 3)


def running_on(lab: Simulation, host: Host) -> list[VirtualMachine]:
    """Return the VMs that run on a host."""
    return [vm for vm in (lab.state.get(moid, VirtualMachine) for moid in host.vms) if vm.is_on]


def evacuate(lab: Simulation, host: Host) -> None:
    """Move every running VM that DRS may move and another host takes."""
    cluster = lab.state.cluster_of(host)
    for vm in running_on(lab, host):
        if may_move(lab, cluster, vm):
            _move(lab, cluster, vm, host)


def may_move(lab: Simulation, cluster: Cluster, vm: VirtualMachine) -> bool:
    """Whether DRS would move a VM by itself, room elsewhere apart."""
    override = cluster.overrides.get(vm.moid)
    level = (override.drs_behavior if override is not None else None) or cluster.drs_behavior
    is_off = override is not None and override.drs_enabled is False
    if not cluster.drs_enabled or is_off or level != "fullyAutomated":
        return False
    return not migration.holds_functions(vm) and (not vgpus_of(vm.devices) or _moves_vgpus(lab, cluster))


def _moves_vgpus(lab: Simulation, cluster: Cluster) -> bool:
    release = tuple(int(part) for part in lab.state.version.split("."))
    return (
        release >= VGPU_OPTION_FROM
        and cluster.drs_options.get(VGPU_OPTION) == "-1"
        and lab.state.settings.get(migration.HOT_MIGRATE) is True
    )


def _move(lab: Simulation, cluster: Cluster, vm: VirtualMachine, host: Host) -> None:
    """Move a VM as it runs, to the host with the most memory free; it stays where none takes it."""
    others = (lab.state.get(moid, Host) for moid in cluster.hosts)
    candidates = [other for other in others if other is not host and is_in_reach(lab, vm, other)]
    candidates.sort(key=lambda other: admission.reserved_mib(lab.state, other) / other.memory_mib)
    try:
        migration.check_may_leave(lab.state, vm, host)
        move_running(lab, vm, candidates)
    except vmodl.MethodFault:
        return
