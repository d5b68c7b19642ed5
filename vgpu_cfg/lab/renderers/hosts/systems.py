"""How a host's clock, its storage and its order of starts show; of the last two the lab keeps nothing."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import constant
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import Managed

UTC = vim.host.DateTimeSystem.TimeZone(key="UTC", name="UTC", description="UTC", gmtOffset=0)
"""The only time zone: ESXi runs in no other."""


def _date_time(_context: Context, thing: Managed) -> Any:
    host = host_of(thing)
    return vim.host.DateTimeInfo(
        timeZone=UTC,
        systemClockProtocol="ntp",
        ntpConfig=vim.host.NtpConfig(
            server=list(host.ntp_servers), configFile=[f"server {name}" for name in host.ntp_servers]
        ),
        enabled=host.services["ntpd"].running,
    )


DATE_TIME_SYSTEM: dict[str, Render] = {"dateTimeInfo": _date_time}

STORAGE_SYSTEM: dict[str, Render] = {
    "storageDeviceInfo": constant(vim.host.StorageDeviceInfo(softwareInternetScsiEnabled=False)),
    "fileSystemVolumeInfo": constant(vim.host.FileSystemVolumeInfo()),
    "multipathStateInfo": constant(vim.host.MultipathStateInfo()),
}

AUTO_START_MANAGER: dict[str, Render] = {
    "config": constant(
        vim.host.AutoStartManager.Config(
            defaults=vim.host.AutoStartManager.SystemDefaults(
                enabled=False, startDelay=120, stopDelay=120, waitForHeartbeat=False, stopAction="powerOff"
            )
        )
    )
}
