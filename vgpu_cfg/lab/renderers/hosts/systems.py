"""How a host's clock, storage, order of starts, power policies and certificate show.

Of its storage and its order of starts the lab keeps nothing. The names in a certificate are those that
VMware's authority gives by default, and recalled.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import constant, under
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.host_parts import POWER_POLICIES
from vgpu_cfg.lab.state.inventory import Managed

UTC = vim.host.DateTimeSystem.TimeZone(key="UTC", name="UTC", description="UTC", gmtOffset=0)
"""The only time zone: ESXi runs in no other."""


def date_time(_context: Context, thing: Managed) -> Any:
    """Render how a host's clock is set."""
    host = host_of(thing)
    return vim.host.DateTimeInfo(
        timeZone=UTC,
        systemClockProtocol="ntp",
        ntpConfig=vim.host.NtpConfig(
            server=list(host.ntp_servers), configFile=[f"server {name}" for name in host.ntp_servers]
        ),
        enabled=host.services["ntpd"].running,
    )


DATE_TIME_SYSTEM: dict[str, Render] = {"dateTimeInfo": date_time}

STORAGE_SYSTEM: dict[str, Render] = {
    "storageDeviceInfo": constant(
        vim.host.StorageDeviceInfo(
            softwareInternetScsiEnabled=False, multipathInfo=vim.host.MultipathInfo(lun=[])
        )
    ),
    "fileSystemVolumeInfo": constant(vim.host.FileSystemVolumeInfo()),
    "multipathStateInfo": constant(vim.host.MultipathStateInfo()),
}

HOST_STORAGE = {
    "storageDeviceInfo": "storageDevice",
    "fileSystemVolumeInfo": "fileSystemVolume",
    "multipathStateInfo": "multipathState",
}
"""What `HostStorageSystem` calls it → `HostConfigInfo`."""

AUTO_START: dict[str, Render] = {
    "defaults": constant(
        vim.host.AutoStartManager.SystemDefaults(
            enabled=False, startDelay=120, stopDelay=120, waitForHeartbeat=False, stopAction="powerOff"
        )
    ),
    "powerInfo": constant([]),
}

AUTO_START_MANAGER: dict[str, Render] = under("config", AUTO_START)


def _power_policy(key: int) -> Any:
    name = POWER_POLICIES[key]
    return vim.host.PowerSystem.PowerPolicy(
        key=key,
        name=f"PowerPolicy.{name}.name",
        shortName=name,
        description=f"PowerPolicy.{name}.description",
    )


POWER_INFO: dict[str, Render] = {
    "currentPolicy": lambda _context, thing: _power_policy(host_of(thing).power_policy),
}
POWER_CAPABILITY: dict[str, Render] = {
    "availablePolicy": lambda _context, _thing: [_power_policy(key) for key in POWER_POLICIES],
}
POWER_SYSTEM: dict[str, Render] = {**under("info", POWER_INFO), **under("capability", POWER_CAPABILITY)}


def _certificate(_context: Context, thing: Managed) -> Any:
    """Render the certificate that vCenter's own authority gave a host, for five years as by default."""
    host = host_of(thing)
    return vim.host.CertificateManager.CertificateInfo(
        issuer="OU=VMware Engineering,O=lab,ST=California,C=US,DC=local,DC=vsphere,CN=CA",
        subject=f"OU=VMware Engineering,O=VMware,L=Palo Alto,ST=California,C=US,CN={host.name}",
        notBefore=as_datetime(VIRTUAL_START - 86_400),
        notAfter=as_datetime(VIRTUAL_START + 5 * 365 * 86_400),
        status="good",
    )


CERTIFICATE_MANAGER: dict[str, Render] = {"certificateInfo": _certificate}
