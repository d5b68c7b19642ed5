"""The VMs that vSphere HA restarts elsewhere when a host is dead, and the others.

It starts VMs that ran, on hosts of their cluster that reach their files and take them as they are. One with a
function handed through fixed it does not start: high availability is not available to it (vSphere Networking,
"DirectPath I/O"). One whose restarts are disabled, and one that is off, it would register elsewhere; the lab
leaves those where they were.
"""

from __future__ import annotations

from pyVmomi import vmodl

from vgpu_cfg.lab.operations.vms.power import is_in_reach, start_on_one_of
from vgpu_cfg.lab.rules import admission, drs
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import fixed_of
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine


def fail_over(lab: Simulation, host: Host) -> None:
    """Start elsewhere what ran on a dead host, one after the other in the order of their registration."""
    cluster = lab.state.cluster_of(host)
    if not cluster.ha_enabled:
        return
    for vm in [lab.state.get(moid, VirtualMachine) for moid in host.vms]:
        if vm.is_on and _is_restarted(cluster, vm):
            _restart_elsewhere(lab, cluster, vm)


def _is_restarted(cluster: Cluster, vm: VirtualMachine) -> bool:
    return not fixed_of(vm.devices) and cluster.is_restarted(vm.moid)


def _restart_elsewhere(lab: Simulation, cluster: Cluster, vm: VirtualMachine) -> None:
    """Start a VM on another host; where none takes it, it stays as it was last known."""
    hosts = (lab.state.get(moid, Host) for moid in cluster.hosts)
    candidates = [host for host in hosts if host.moid != vm.host and is_in_reach(lab, vm, host)]
    try:
        chosen, _ = drs.place(
            lab.state, vm, candidates, lambda host: admission.admit(lab.state, vm, host, lab.pick)
        )
    except vmodl.MethodFault:
        return
    admission.stop(lab.state, vm)
    start_on_one_of(lab, vm, [chosen])
