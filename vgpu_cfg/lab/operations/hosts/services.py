"""The services, the firewall and the lockdown mode of a host.

A restart of `xorg` brings graphics types and assignment policy into force; while VMs with vGPUs run it
is refused. That refusal's fault, and what a service says that runs already, are recalled.
"""

from __future__ import annotations

from ipaddress import ip_interface
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.gpu_modes import watched_gpus
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host_parts import FirewallRuleset, HostService
from vgpu_cfg.lab.state.host_restart import apply_graphics
from vgpu_cfg.lab.state.inventory import Host

XORG = "xorg"
POLICIES = ("on", "off", "automatic")


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
    """Set who gets in through a ruleset. Raises NotFound, InvalidArgument for what is no address."""
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
