"""The clock of a host, which is the lab's, the NTP servers that it asks, and its storage looked at anew."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Host


@operation("HostDateTimeSystem", "QueryDateTime")
def query_date_time(lab: Simulation, host: Host) -> datetime:
    """Tell the host's time."""
    del host
    return as_datetime(lab.clock.now())


@operation("HostDateTimeSystem", "UpdateDateTimeConfig")
def update_date_time(lab: Simulation, host: Host, *, config: Any) -> None:
    """Set the NTP servers, where a configuration names some. Raises InvalidArgument for a zone but UTC."""
    if config.timeZone not in (None, "UTC"):
        raise refusals.bad_argument("config.timeZone")
    if config.ntpConfig is not None:
        host.ntp_servers = tuple(config.ntpConfig.server or ())
    lab.state.touch(host)


@operation("HostDateTimeSystem", "RefreshDateTimeSystem")
def refresh_date_time(lab: Simulation, host: Host) -> None:
    """Do nothing: the lab is never stale."""


@operation("HostStorageSystem", "RescanAllHba")
@operation("HostStorageSystem", "RescanVmfs")
@operation("HostStorageSystem", "RefreshStorageSystem")
def rescan(lab: Simulation, host: Host) -> None:
    """Do nothing: what storage there is stands in the estate."""
