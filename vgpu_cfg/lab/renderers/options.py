"""Rendering of options: a host's advanced options, those of the VMkernel's boot included, and vCenter's.

Rendering of a host's clock, storage, order of starts, power policies and certificate.

Of its storage and its order of starts the lab keeps nothing. The names in a certificate are those that
VMware's authority gives by default, and recalled.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.renderers.entity import constant, under
from vgpu_cfg.lab.renderers.hardware import host_of
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.operations import Context
from vgpu_cfg.lab.state.host import POWER_POLICIES, AdvancedOption, OptionKind
from vgpu_cfg.lab.state.inventory import Host, Managed

CONSOLIDATION = "Config.Defaults.vGPU.consolidation"
"""The assignment policy as an option."""

BOOT = "VMkernel.Boot."
LONG: Any = VmomiSupport.vmodlTypes["long"]
LARGEST = 2**63 - 1

UTC = vim.host.DateTimeSystem.TimeZone(key="UTC", name="UTC", description="UTC", gmtOffset=0)
"""The only time zone: ESXi runs in no other."""


def option_table(host: Host) -> dict[str, AdvancedOption]:
    """Return every advanced option of a host by key: its own, and those from other parts of its state.

    A boot setting shows the configured value, not the one in effect.
    """
    found = dict(host.advanced)
    is_consolidating = host.configured_assignment_policy == "consolidation"
    found[CONSOLIDATION] = AdvancedOption("bool", is_consolidating, default=False)
    for name, setting in host.kernel.items():
        if setting.is_option:
            kind: OptionKind = "bool" if setting.kind == "Bool" else "string"
            found[BOOT + name] = AdvancedOption(
                kind,
                _typed(kind, setting.configured),
                _typed(kind, setting.default),
                setting.description,
            )
    return found


def _typed(kind: OptionKind, text: str) -> bool | str:
    return text.upper() == "TRUE" if kind == "bool" else text


def host_options(host: Host) -> list[Any]:
    """Render the advanced options of a host, by key."""
    return [
        vim.option.OptionValue(key=key, value=_wire(option.kind, option.value))
        for key, option in sorted(option_table(host).items())
    ]


def options(context: Context, thing: Managed) -> list[Any]:
    """Render what an option manager holds: a host's options, or vCenter's own."""
    if isinstance(thing, Service) and thing.owner is None:
        return [
            vim.option.OptionValue(key=key, value=value)
            for key, value in sorted(context.state.settings.items())
        ]
    return host_options(host_of(thing))


def option_definitions(_context: Context, thing: Managed) -> list[Any]:
    """Render the types of a host's options; vCenter defines none of its own that the lab knows."""
    if isinstance(thing, Service) and thing.owner is None:
        return []
    return [
        vim.option.OptionDef(
            key=key, label=option.label or key, summary=option.label or key, optionType=_option_type(option)
        )
        for key, option in sorted(option_table(host_of(thing)).items())
    ]


def _wire(kind: OptionKind, value: Any) -> Any:
    return LONG(value) if kind == "long" else value


def _option_type(option: AdvancedOption) -> Any:
    match option.kind:
        case "bool":
            return vim.option.BoolOption(supported=True, defaultValue=option.default)
        case "long":
            return vim.option.LongOption(min=0, max=LARGEST, defaultValue=option.default)
        case "int":
            return vim.option.IntOption(min=0, max=2**31 - 1, defaultValue=option.default)
        case "string":
            return vim.option.StringOption(defaultValue=option.default)


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
"""The name in `HostStorageSystem` → the one in `HostConfigInfo`."""

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
