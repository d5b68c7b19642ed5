"""Services and settings of a host: firewall, lockdown, clock, storage, modules, packages, power policy.

A restart of `xorg` brings graphics types and assignment policy into force; while VMs with vGPUs run it is
refused. The fault of that refusal, and the message of a service that runs already, are recalled.

The clock of a host is the lab's; with it go the NTP servers that the host asks. Its storage can be looked at
anew. The option strings of kernel modules are replaced whole, and hold from the next boot on. Packages are
the installed ones, and those that an offline bundle adds at the next boot.

The four power policies with their keys and short names are those of ESXi (`vim.host.PowerSystem`, and
Ansible's vmware_host_powermgmt_policy); that a new host has the balanced one is as VMware's guide to resource
management has it. The acceptance level of packages is ESXi's own, and nothing changes it.
"""

from __future__ import annotations

from datetime import datetime
from ipaddress import ip_interface
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation, watched_gpus
from vgpu_cfg.lab.state.host import POWER_POLICIES, FirewallRuleset, HostService, KernelModule
from vgpu_cfg.lab.state.host_defaults import apply_graphics
from vgpu_cfg.lab.state.inventory import Host

XORG = "xorg"
POLICIES = ("on", "off", "automatic")

ACCEPTANCE = "VMwareCertified"


@operation("HostServiceSystem", "StartService")
def start_service(lab: Simulation, host: Host, *, id: str) -> None:  # noqa: A002 - the API's name
    """Start a service. Raises NotFound, InvalidState for one that runs."""
    _switch(lab, host, id, running=True)


@operation("HostServiceSystem", "StopService")
def stop_service(lab: Simulation, host: Host, *, id: str) -> None:  # noqa: A002 - the API's name
    """Stop a service. Raises NotFound, InvalidState for one that does not run."""
    _switch(lab, host, id, running=False)


@operation("HostServiceSystem", "RestartService")
def restart_service(lab: Simulation, host: Host, *, id: str) -> None:  # noqa: A002 - the API's name
    """Restart a service, or start it. Raises NotFound, HostConfigFault for `xorg` while vGPUs run."""
    service = _service(host, id)
    if id == XORG:
        if any(gpu.uses for gpu in host.gpus):
            raise vim.fault.HostConfigFault(
                msg="The graphics devices of the host are in use by virtual machines."
            )
        if not lab.state.denies("graphics-type-after-xorg-restart"):
            with watched_gpus(lab, host):
                apply_graphics(host)
    service.running = True
    lab.state.touch(host)


@operation("HostServiceSystem", "UpdateServicePolicy")
def update_policy(lab: Simulation, host: Host, *, id: str, policy: str) -> None:  # noqa: A002 - the API's name
    """Set whether a service starts with the host. Raises NotFound, InvalidArgument."""
    service = _service(host, id)
    if policy not in POLICIES:
        raise refusals.bad_argument("policy")
    service.policy = policy
    lab.state.touch(host)


@operation("HostServiceSystem", "RefreshServices")
def refresh_services(lab: Simulation, host: Host) -> None:
    """Do nothing: the lab is never stale."""


@operation("HostFirewallSystem", "EnableRuleset")
def enable_ruleset(lab: Simulation, host: Host, *, id: str) -> None:  # noqa: A002 - the API's name
    """Open the ports of a ruleset; one that is open stays so. Raises NotFound."""
    _ruleset(host, id).enabled = True
    lab.state.touch(host)


@operation("HostFirewallSystem", "DisableRuleset")
def disable_ruleset(lab: Simulation, host: Host, *, id: str) -> None:  # noqa: A002 - the API's name
    """Close the ports of a ruleset. Raises NotFound."""
    _ruleset(host, id).enabled = False
    lab.state.touch(host)


@operation("HostFirewallSystem", "UpdateRuleset")
def update_ruleset(lab: Simulation, host: Host, *, id: str, spec: Any) -> None:  # noqa: A002 - the API's name
    """Set the permitted addresses of a ruleset. Raises NotFound, InvalidArgument for other text."""
    ruleset, hosts = _ruleset(host, id), spec.allowedHosts
    networks = [f"{one.network}/{one.prefixLength}" for one in hosts.ipNetwork or ()]
    allowed = (*(hosts.ipAddress or ()), *networks)
    for one in allowed:
        try:
            ip_interface(one)
        except ValueError:
            raise refusals.bad_argument("spec.allowedHosts") from None
    ruleset.allowed = None if hosts.allIp else allowed
    lab.state.touch(host)


@operation("HostFirewallSystem", "RefreshFirewall")
def refresh_firewall(lab: Simulation, host: Host) -> None:
    """Do nothing, for the same reason."""


@operation("HostAccessManager", "ChangeLockdownMode")
def change_lockdown_mode(lab: Simulation, host: Host, *, mode: str) -> None:
    """Set the lockdown mode."""
    match str(mode):
        case "lockdownDisabled" | "lockdownNormal" | "lockdownStrict" as known:
            host.lockdown = known
        case _:
            raise refusals.bad_argument("mode")
    lab.state.touch(host)


def _switch(lab: Simulation, host: Host, key: str, *, running: bool) -> None:
    service = _service(host, key)
    if service.running == running:
        raise vim.fault.InvalidState(
            msg="The operation is not allowed in the current state of the host service."
        )
    service.running = running
    lab.state.touch(host)


def _service(host: Host, key: str) -> HostService:
    if key not in host.services:
        raise refusals.not_found()
    return host.services[key]


def _ruleset(host: Host, key: str) -> FirewallRuleset:
    if key not in host.rulesets:
        raise refusals.not_found()
    return host.rulesets[key]


@operation("HostDateTimeSystem", "QueryDateTime")
def query_date_time(lab: Simulation, host: Host) -> datetime:
    """Show the host's time."""
    del host
    return as_datetime(lab.clock.now())


@operation("HostDateTimeSystem", "UpdateDateTimeConfig")
def update_date_time(lab: Simulation, host: Host, *, config: Any) -> None:
    """Set the NTP servers, if a configuration names some. Raises InvalidArgument for a zone but UTC."""
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
    """Do nothing: the storage is defined in the estate."""


@operation("HostKernelModuleSystem", "QueryModules")
def query_modules(lab: Simulation, host: Host) -> list[Any]:
    """List the modules; `optionString` is what each was loaded with. Sizes and addresses are made up."""
    section: Any = vim.host.KernelModuleSystem.ModuleInfo.SectionInfo
    return [
        vim.host.KernelModuleSystem.ModuleInfo(
            id=number,
            name=module.name,
            version=module.version,
            filename=module.filename,
            optionString=module.at_boot,
            loaded=module.loaded,
            enabled=True,
            useCount=1,
            readOnlySection=section(address=0, length=0),
            writableSection=section(address=0, length=0),
            textSection=section(address=0, length=0),
            dataSection=section(address=0, length=0),
            bssSection=section(address=0, length=0),
        )
        for number, module in enumerate(host.modules.values(), start=1)
    ]


@operation("HostKernelModuleSystem", "QueryConfiguredModuleOptionString")
def query_configured(lab: Simulation, host: Host, *, name: str) -> str:
    """Show a module's configured options. Raises NotFound."""
    return find_module(host, name).configured


@operation("HostKernelModuleSystem", "UpdateModuleOptionString")
def update_options(lab: Simulation, host: Host, *, name: str, options: str) -> None:
    """Replace a module's option string. Raises NotFound."""
    find_module(host, name).configured = options
    lab.state.touch(host)


def find_module(host: Host, name: str) -> KernelModule:
    """Return a module of a host. Raises NotFound."""
    if name not in host.modules:
        raise refusals.not_found()
    return host.modules[name]


@operation("HostImageConfigManager", "fetchSoftwarePackages")
def fetch_software_packages(lab: Simulation, host: Host) -> list[Any]:
    """List the packages that the host runs now; those that wait for a reboot are not among them."""
    return [
        vim.host.SoftwarePackage(
            name=vib.name,
            version=vib.version,
            type="bootbank",
            vendor=vib.vendor,
            acceptanceLevel=ACCEPTANCE,
            summary=vib.summary,
            description=vib.summary,
            creationDate=as_datetime(VIRTUAL_START),
            maintenanceModeRequired=True,
            capability=vim.host.SoftwarePackage.Capability(
                liveInstallAllowed=False, liveRemoveAllowed=False, statelessReady=True, overlay=False
            ),
        )
        for vib in host.software.values()
    ]


@operation("HostPowerSystem", "ConfigurePowerPolicy")
def configure_power_policy(lab: Simulation, host: Host, *, key: int) -> None:
    """Set the power policy, which is in force at once. Raises InvalidArgument for a key that there is not."""
    if key not in POWER_POLICIES:
        raise refusals.bad_argument("key")
    host.power_policy = key
    lab.state.touch(host)


@operation("HostImageConfigManager", "HostImageConfigGetAcceptance")
def acceptance(lab: Simulation, host: Host) -> str:
    """Show which packages the host accepts."""
    del lab, host
    return "partner"


@operation("HostSystem", "QueryTpmAttestationReport")
def tpm_report(lab: Simulation, host: Host) -> None:
    """Report nothing: no host of the lab has a TPM."""
