"""Disconnecting hosts from vCenter, and connecting them again."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Host


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
