"""Maintenance mode, reboot and shutdown of hosts, and their connection to vCenter.

Entering maintenance mode ends when no VM runs on the host: DRS moves all VMs that it can, the rest is waited
for until the request's timeout. A host that enters takes no new VM.

Fully automated DRS moves ordinary VMs. One with a vGPU it moves only where the cluster's option
`VgpuMMAutomationTimeoutSecs` is -1 (vCenter 7.0 U3 and later) and vCenter's `vgpu.hotmigrate.enabled` is
true; one that holds a PCI function whole, or a virtual function, never. Obstacles to any move of a running VM
(`rules.drs`) apply to DRS, too.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.operations.hosts import lifecycle as host_lifecycle
from vgpu_cfg.lab.operations.vms.migrate import move_running
from vgpu_cfg.lab.operations.vms.power import is_in_reach
from vgpu_cfg.lab.rules import admission, drs, refusals
from vgpu_cfg.lab.simulation import event_history
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.simulation.tasks import ENDED, Blocked
from vgpu_cfg.lab.state.devices import vgpus_of
from vgpu_cfg.lab.state.inventory import Cluster, Host, VirtualMachine

ENTER = "EnterMaintenanceMode_Task"
VSAN_ACTIONS = ("noAction", "ensureObjectAccessibility", "evacuateAllData")
"""vim `VsanHostDecommissionModeObjectAction`. That vCenter refuses any other word is unproven."""
ENTER_SECONDS = 5.0
SECONDS_A_VM = 4.0
"""How long one migration adds: a number of the lab's own."""

VGPU_OPTION = "VgpuMMAutomationTimeoutSecs"
VGPU_OPTION_FROM = (7, 0, 3)


def _begin(lab: Simulation, host: Host, *, maintenanceSpec: Any = None, **_arguments: Any) -> None:
    _check_reachable(host)
    vsan = getattr(maintenanceSpec, "vsanMode", None)
    if vsan is not None and vsan.objectAction not in VSAN_ACTIONS:
        raise refusals.bad_argument("maintenanceSpec.vsanMode.objectAction")
    if host.in_maintenance or host.entering_maintenance:
        raise _wrong_state()
    lab.note(host, "maintenance", "enter")
    host.entering_maintenance = True
    lab.state.touch(host)


def _seconds(lab: Simulation, host: Host, **_arguments: Any) -> float:
    return ENTER_SECONDS + SECONDS_A_VM * len(running_on(lab, host))


@task(
    "HostSystem",
    ENTER,
    description_id="HostSystem.enterMaintenanceMode",
    seconds=_seconds,
    check=_begin,
    cancelable=True,
)
def enter_maintenance(
    lab: Simulation,
    host: Host,
    *,
    timeout: int,
    evacuatePoweredOffVms: Any = None,
    maintenanceSpec: Any = None,
) -> None:
    """Enter maintenance mode once no VM runs on the host. VMs that are off stay registered there.

    Of vSAN's modes only the words are judged, and no VM that is off is moved.
    """
    _check_reachable(host)
    evacuate(lab, host)
    if running_on(lab, host):
        raise Blocked(float(timeout), vim.fault.Timedout(msg="Operation timed out."))
    host.in_maintenance, host.entering_maintenance = True, False
    lab.state.touch(host)
    event_history.post(lab, host, "EnteredMaintenanceModeEvent")


def _is_over(lab: Simulation, host: Host) -> None:
    if host.entering_maintenance:
        host.entering_maintenance = False
        lab.state.touch(host)


ENDED["HostSystem", ENTER] = _is_over


def _check_in_maintenance(lab: Simulation, host: Host, **_arguments: Any) -> None:
    _check_reachable(host)
    if not host.in_maintenance:
        raise _wrong_state()


@task(
    "HostSystem",
    "ExitMaintenanceMode_Task",
    description_id="HostSystem.exitMaintenanceMode",
    seconds=3.0,
    check=_check_in_maintenance,
)
def exit_maintenance(lab: Simulation, host: Host, *, timeout: int) -> None:
    """Leave maintenance mode."""
    del timeout
    _check_in_maintenance(lab, host)
    lab.note(host, "maintenance", "exit")
    host.in_maintenance = False
    lab.state.touch(host)
    event_history.post(lab, host, "ExitMaintenanceModeEvent")


def _may_go_down(lab: Simulation, host: Host, *, force: bool) -> None:
    _check_reachable(host)
    if not (host.in_maintenance or force) or host.moid in lab.state.leaving:
        raise _wrong_state()


@task(
    "HostSystem",
    "RebootHost_Task",
    description_id="HostSystem.reboot",
    seconds=1.0,
    check=_may_go_down,
)
def reboot(lab: Simulation, host: Host, *, force: bool) -> None:
    """Reboot the host: it is gone a moment later, and back after some minutes."""
    _may_go_down(lab, host, force=force)
    host_lifecycle.begin_shutdown(lab, host, for_good=False)


@task(
    "HostSystem",
    "ShutdownHost_Task",
    description_id="HostSystem.shutdown",
    seconds=1.0,
    check=_may_go_down,
)
def shut_down(lab: Simulation, host: Host, *, force: bool) -> None:
    """Power off the host; it stays off until its power button is pressed."""
    _may_go_down(lab, host, force=force)
    host_lifecycle.begin_shutdown(lab, host, for_good=True)


def _check_reachable(host: Host) -> None:
    away = refusals.host_away(host)
    if away is not None:
        raise away


def _wrong_state() -> Exception:
    return vim.fault.InvalidState(msg="The operation is not allowed in the current state of the host.")


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
    is_lazy = lab.state.denies("drs-empties-hosts")
    if not cluster.drs_enabled or is_off or is_lazy or level != "fullyAutomated":
        return False
    return not drs.holds_functions(vm) and (not vgpus_of(vm.devices) or _moves_vgpus(lab, cluster))


def _moves_vgpus(lab: Simulation, cluster: Cluster) -> bool:
    release = tuple(int(part) for part in lab.state.version.split("."))
    return (
        release >= VGPU_OPTION_FROM
        and cluster.drs_options.get(VGPU_OPTION) == "-1"
        and lab.state.settings.get(drs.HOT_MIGRATE) is True
    )


def _move(lab: Simulation, cluster: Cluster, vm: VirtualMachine, host: Host) -> None:
    """Move a VM as it runs, to the host with the most memory free; it stays where none takes it."""
    others = (lab.state.get(moid, Host) for moid in cluster.hosts)
    candidates = [other for other in others if other is not host and is_in_reach(lab, vm, other)]
    candidates.sort(key=lambda other: admission.reserved_mib(lab.state, other) / other.memory_mib)
    try:
        drs.check_may_leave(lab.state, vm, host)
        move_running(lab, vm, candidates)
    except vmodl.MethodFault:
        return


@task("HostSystem", "DisconnectHost_Task", description_id="HostSystem.disconnect", seconds=2.0)
def disconnect(lab: Simulation, host: Host) -> None:
    """Let go of a host; its VMs run on there. Raises InvalidState for one that is disconnected."""
    if host.connection == "disconnected":
        raise vim.fault.InvalidState(msg="The operation is not allowed in the current state of the host.")
    host.connection = "disconnected"
    _touch(lab, host)


@task("HostSystem", "ReconnectHost_Task", description_id="HostSystem.reconnect", seconds=3.0)
def reconnect(lab: Simulation, host: Host, *, cnxSpec: Any = None, reconnectSpec: Any = None) -> None:
    """Look after a host again. Raises InvalidState where it is connected, HostNotReachable."""
    del cnxSpec, reconnectSpec
    if host.connection == "connected":
        raise vim.fault.InvalidState(msg="The operation is not allowed in the current state of the host.")
    away = refusals.host_unusable(host)
    if host.connection == "notResponding" and away is not None:
        raise away
    host.connection = "connected"
    _touch(lab, host)


def _touch(lab: Simulation, host: Host) -> None:
    """Count host and VMs as changed: these show whether their host answers."""
    lab.state.touch(host, *(lab.state.objects[moid] for moid in host.vms))
