"""Rendering of an ESXi host: its state, summary and configuration, and of options, vCenter's own included.

Of a host's storage and its order of starts the lab keeps nothing. The names in a certificate are those that
VMware's authority gives by default, and recalled.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.lab.api.references import Service, reference
from vgpu_cfg.lab.api.versions import version_name
from vgpu_cfg.lab.renderers.entity import ENTITY, GREEN, MIB, attribute, constant, itself, under
from vgpu_cfg.lab.renderers.hardware import GRAPHICS, HARDWARE, SYSTEM, host_of, pci_passthru_info
from vgpu_cfg.lab.renderers.network import NETWORK_INFO, VNIC_MANAGER_INFO, dns_config
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.admission import reserved_mib
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.directory import BROWSER, service_of
from vgpu_cfg.lab.simulation.operations import Context, referred
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


HYPERVISOR_MIB = 4096
USED_MHZ = 500
"""The used resources of an idle host in the lab."""

CONFIG_MANAGER = {
    "graphicsManager": "graphicsManager",
    "pciPassthruSystem": "pciPassthruSystem",
    "assignableHardwareManager": "assignableHardwareManager",
    "networkSystem": "networkSystem",
    "serviceSystem": "serviceSystem",
    "advancedOption": "EsxHostAdvSettings",
    "kernelModuleSystem": "kernelModuleSystem",
    "firewallSystem": "firewallSystem",
    "imageConfigManager": "imageConfigManager",
    "virtualNicManager": "virtualNicManager",
    "hostAccessManager": "hostAccessManager",
    "storageSystem": "storageSystem",
    "datastoreSystem": "datastoreSystem",
    "dateTimeSystem": "dateTimeSystem",
    "autoStartManager": "autoStartManager",
    "powerSystem": "powerSystem",
    "certificateManager": "certificateManager",
}
"""vim `HostConfigManager` property → the prefix of the manager's moid."""


def host_version(thing: Managed) -> str | None:
    """Return the API version (pyvmomi's name) behind which a host, or a manager of it, has no properties."""
    return version_name(host_of(thing).api_version)


def product(thing: Host) -> Any:
    """Return the host's product."""
    return vim.AboutInfo(
        name="VMware ESXi",
        fullName=f"VMware ESXi {thing.version} build-{thing.build}",
        vendor="VMware, Inc.",
        version=thing.version,
        build=thing.build,
        localeVersion="INTL",
        localeBuild="000",
        osType="vmnix-x86",
        productLineId="embeddedEsx",
        apiType="HostAgent",
        apiVersion=thing.api_version,
        licenseProductName="VMware ESX Server",
        licenseProductVersion=thing.version.partition(".")[0] + ".0",
    )


def used_mib(context: Context, thing: Host) -> int:
    """Return the memory that a host shows as used."""
    return HYPERVISOR_MIB + reserved_mib(context.state, thing)


def _power_state(_context: Context, thing: Host) -> str:
    return thing.power_state if thing.connection == "connected" else "unknown"


def _booted(thing: Host) -> float:
    """Return when a host was started; one that the estate never restarted runs for some weeks."""
    return thing.boot_time or VIRTUAL_START - 40 * 86_400


def _boot_time(context: Context, thing: Host) -> Any:
    away = context.lab.counters["calls"] % 5 if context.state.denies("boot-time-is-steady") else 0
    return as_datetime(_booted(thing) + away) if thing.connection == "connected" else None


def _uptime(context: Context, thing: Host) -> int:
    return max(0, int(context.lab.clock.now() - _booted(thing)))


def _is_reboot_required(_context: Context, thing: Host) -> bool:
    """Return whether the host knows of a pending restart: passthrough, virtual functions, packages.

    It does not know of kernel settings and module options, nor of the settings of nvidia-smi and mlxconfig.
    """
    return (
        any(state.enabled != state.active for state in thing.passthrough.values())
        or any(nic.requested_vfs != nic.num_vfs for nic in thing.nics)
        or bool(thing.staged)
    )


def services(_context: Context, thing: Managed) -> list[Any]:
    """Render the services of a host; a changed graphics type waits for `xorg`."""
    return [
        vim.host.Service(
            key=key,
            label=service.label,
            required=False,
            uninstallable=False,
            running=service.running,
            policy=service.policy,
            ruleset=["sshServer"] if key == "TSM-SSH" else [],
        )
        for key, service in host_of(thing).services.items()
    ]


def rulesets(_context: Context, thing: Managed) -> list[Any]:
    """Render the rulesets of a host's firewall."""
    return [
        vim.host.Ruleset(
            key=key,
            label=ruleset.label,
            required=False,
            rule=[
                vim.host.Ruleset.Rule(
                    port=ruleset.port,
                    endPort=ruleset.end_port,
                    direction="inbound",
                    portType="dst",
                    protocol="tcp",
                )
            ],
            service=ruleset.service or None,
            enabled=ruleset.enabled,
            allowedHosts=_allowed_hosts(ruleset.allowed),
        )
        for key, ruleset in host_of(thing).rulesets.items()
    ]


def _allowed_hosts(allowed: tuple[str, ...] | None) -> Any:
    parts = [one.partition("/") for one in allowed or ()]
    return vim.host.Ruleset.IpList(
        allIp=allowed is None,
        ipAddress=[address for address, slash, _ in parts if not slash],
        ipNetwork=[
            vim.host.Ruleset.IpNetwork(network=network, prefixLength=int(length))
            for network, slash, length in parts
            if slash
        ],
    )


FIREWALL: dict[str, Render] = {
    "defaultPolicy": constant(
        vim.host.FirewallInfo.DefaultPolicy(incomingBlocked=True, outgoingBlocked=True)
    ),
    "ruleset": rulesets,
}


def _licensable(key: str, value: int) -> Any:
    return vmodl.KeyAnyValue(key=key, value=value)


def _manager(prefix: str) -> Render:
    return lambda _context, thing: reference(service_of(thing, prefix))


_RUNTIME: dict[str, Render] = {
    "connectionState": attribute(lambda thing: thing.connection),
    "powerState": _power_state,
    "standbyMode": constant("none"),
    "inMaintenanceMode": attribute(lambda thing: thing.in_maintenance),
    "inQuarantineMode": constant(value=False),
    "bootTime": _boot_time,
}

_SUMMARY: dict[str, Render] = {
    "host": itself,
    **under("hardware", SYSTEM),
    "hardware.memorySize": attribute(lambda thing: thing.memory_mib * MIB),
    "hardware.cpuModel": attribute(lambda thing: thing.cpu_model),
    "hardware.cpuMhz": attribute(lambda thing: thing.cpu_mhz),
    "hardware.numCpuPkgs": attribute(lambda thing: thing.sockets),
    "hardware.numCpuCores": attribute(lambda thing: thing.cores),
    "hardware.numCpuThreads": attribute(lambda thing: thing.threads),
    "hardware.numNics": attribute(lambda thing: len(thing.nics)),
    "hardware.numHBAs": constant(1),
    **under("runtime", _RUNTIME),
    "config.name": attribute(lambda thing: thing.name),
    "config.port": constant(443),
    "config.product": attribute(product),
    "config.vmotionEnabled": constant(value=True),
    "config.faultToleranceEnabled": constant(value=False),
    "quickStats.overallCpuUsage": constant(USED_MHZ),
    "quickStats.overallMemoryUsage": used_mib,
    "quickStats.uptime": _uptime,
    "overallStatus": GREEN,
    "rebootRequired": _is_reboot_required,
}

_CONFIG: dict[str, Render] = {
    "host": itself,
    "product": attribute(product),
    "hyperThread": attribute(
        lambda thing: vim.host.CpuSchedulerSystem.HyperThreadScheduleInfo(
            available=True, active=thing.hyperthreading, config=thing.hyperthreading
        )
    ),
    **under("network", NETWORK_INFO),
    "network.dnsConfig": dns_config,
    "dateTimeInfo": date_time,
    **{HOST_STORAGE[name]: render for name, render in STORAGE_SYSTEM.items()},
    **under("autoStart", AUTO_START),
    **under("powerSystemInfo", POWER_INFO),
    **under("powerSystemCapability", POWER_CAPABILITY),
    "service.service": services,
    "option": lambda _context, thing: host_options(thing),
    **under("firewall", FIREWALL),
    **under("virtualNicManagerInfo", VNIC_MANAGER_INFO),
    "lockdownMode": attribute(lambda thing: thing.lockdown),
    "pciPassthruInfo": pci_passthru_info,
    **GRAPHICS,
}

_CAPABILITY: dict[str, Render] = {
    "maintenanceModeSupported": constant(value=True),
    "rebootSupported": constant(value=True),
    "vmotionSupported": constant(value=True),
    "latencySensitivitySupported": constant(value=True),
    "deviceRebindWithoutRebootSupported": attribute(lambda thing: thing.rebinds_without_reboot),
    "assignableHardwareSupported": constant(value=True),
}
"""The parts of HostCapability that clients read; the rest shows as not supported. Plausible, not recorded."""

HOST: dict[str, Render] = {
    **ENTITY,
    **under("runtime", _RUNTIME),
    **under("summary", _SUMMARY),
    **under("hardware", HARDWARE),
    **under("capability", _CAPABILITY),
    "licensableResource.resource": lambda _context, thing: [
        _licensable("numCpuPackages", thing.sockets),
        _licensable("numCpuCores", thing.cores),
    ],
    **{f"configManager.{name}": _manager(prefix) for name, prefix in CONFIG_MANAGER.items()},
    **under("config", _CONFIG),
    "datastoreBrowser": attribute(lambda thing: vim.host.DatastoreBrowser(f"{BROWSER}-{thing.moid}")),
    "vm": lambda context, thing: referred(context, thing.vms),
    "datastore": lambda context, thing: referred(context, thing.datastores),
    "network": lambda context, thing: referred(context, thing.networks),
}
