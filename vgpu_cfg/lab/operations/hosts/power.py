"""Maintenance mode, reboot and shutdown of hosts.

Entering maintenance mode ends when no VM runs on the host any more: DRS moves what it can, the rest is
waited for until the request's timeout. A host that enters takes no new VM.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.hosts import lifecycle as host_lifecycle
from vgpu_cfg.lab.operations.hosts.evacuate import evacuate, running_on
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation import events
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.simulation.tasks import ENDED, Blocked
from vgpu_cfg.lab.state.inventory import Host

ENTER = "EnterMaintenanceMode_Task"
VSAN_ACTIONS = ("noAction", "ensureObjectAccessibility", "evacuateAllData")
"""vim `VsanHostDecommissionModeObjectAction`. That vCenter refuses any other word is unproven."""
ENTER_SECONDS = 5.0
SECONDS_A_VM = 4.0
"""How long one migration adds: a number of the lab's own."""


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
    events.post(lab, host, "EnteredMaintenanceModeEvent")


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
    events.post(lab, host, "ExitMaintenanceModeEvent")


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
    """Tell the host to reboot: it is gone a moment later, and back after some minutes."""
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
    """Tell the host to power off; it stays so until somebody presses its button."""
    _may_go_down(lab, host, force=force)
    host_lifecycle.begin_shutdown(lab, host, for_good=True)


def _check_reachable(host: Host) -> None:
    away = refusals.host_away(host)
    if away is not None:
        raise away


def _wrong_state() -> Exception:
    return vim.fault.InvalidState(msg="The operation is not allowed in the current state of the host.")
