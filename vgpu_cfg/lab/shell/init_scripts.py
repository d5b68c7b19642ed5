"""The host's own scripts that matter here: xorg, NVIDIA's GPU management daemon; and vmkload_mod's list.

What the scripts print is in NVIDIA's and VMware's guides. Recalled are
vmkload_mod's header and numbers, and what xorg says while vGPUs run.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyVmomi import vmodl

from vgpu_cfg.lab.nvidia.gpus import Reply, complain, say
from vgpu_cfg.lab.operations.hosts.services import XORG, restart_service
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

MODULE_SIZES_KB = {"nvidia": 8420, "nmlx5_core": 1580, "nmlx5_rdma": 412}
"""The first is in NVIDIA's guide, the others are made up."""


def run_xorg(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Restart Xorg, which brings graphics types and the policy into force; or tell its state."""
    match list(arguments):
        case ["restart"]:
            try:
                restart_service(lab, host, id=XORG)
            except vmodl.MethodFault as fault:
                return complain(str(getattr(fault, "msg", fault)))
            return say("Getting Exclusive access, please wait...", "Exclusive access granted.")
        case ["status"]:
            is_up = host.services[XORG].running
            return say(f"Xorg is {'' if is_up else 'not '}running", status=0 if is_up else 1)
        case _:
            return complain("Usage: xorg {start|stop|status|restart}")


def run_gpu_daemon(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Tell that the GPU management daemon runs, which it always does where it is installed."""
    if list(arguments) != ["status"]:
        return complain("Usage: nvdGpuMgmtDaemon {start|stop|status|restart}")
    return say("daemon_nvdGpuMgmtDaemon is running")


def run_vmkload_mod(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """List the loaded VMkernel modules."""
    if list(arguments) not in (["-l"], ["--list"]):
        return complain("Usage: vmkload_mod -l")
    rows = [
        f"{module.name:<25}{5:<6}{MODULE_SIZES_KB.get(module.name, 64)}"
        for module in host.modules.values()
        if module.loaded
    ]
    return say(f"{'Name':<25}{'Used':<6}Size(kb)", *rows)
