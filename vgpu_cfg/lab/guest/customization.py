"""Customization in a guest: at its next start the tools apply the kept specification; vCenter logs it.

Source: the types of vim `CustomizationEvent`. Texts, and that a failed one leaves nothing, are recalled.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.rules.customization import PENDING_KEY, name_of_host
from vgpu_cfg.lab.simulation.past_events import record
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import nics_of
from vgpu_cfg.lab.state.guest import NicSetting
from vgpu_cfg.lab.state.inventory import VirtualMachine

LOG = "/var/log/vmware-imc/toolsDeployPkg.log"
FAULT = "customization"
_FAILURES = {
    "network": "CustomizationNetworkSetupFailed",
    "identity": "CustomizationLinuxIdentityFailed",
    "unknown": "CustomizationUnknownFailure",
}
"""The words of a guest's fault → the event for it."""

_Customization: Any = vim.vm.customization


def boot(lab: Simulation, vm: VirtualMachine) -> None:
    """Customize a guest that has just come up, if its VM was to be; without tools it goes on waiting."""
    spec = vm.customization
    if spec is None or not vm.tools_installed:
        return
    vm.customization = None
    vm.extra_config.pop(PENDING_KEY, None)
    _tell(lab, vm, "CustomizationStartedEvent", "Started customization of VM {}.")
    failure = _FAILURES.get(guest_of(vm).faults.get(FAULT, ""))
    if failure is not None:
        _tell(lab, vm, failure, "An error occurred while customizing VM {}.")
        return
    guest = guest_of(vm)
    guest.host_name = name_of_host(vm, spec) or guest.host_name
    for nic, mapping in zip(nics_of(vm.devices), spec.nicSettingMap or (), strict=False):
        setting = _setting(mapping.adapter, spec.globalIPSettings)
        if setting is not None:
            guest.settings[nic.macAddress.lower()] = setting
    _tell(lab, vm, "CustomizationSucceeded", "Customization of VM {} succeeded.")


def _setting(adapter: Any, everywhere: Any) -> NicSetting | None:
    """Return a guest's settings of a NIC, None if a generator yields unknown ones."""
    dns = tuple(adapter.dnsServerList or everywhere.dnsServerList or ())
    if isinstance(adapter.ip, _Customization.DhcpIpGenerator):
        return NicSetting(dhcp=True, dns=dns)
    if not isinstance(adapter.ip, _Customization.FixedIp):
        return None
    prefix = IPv4Network(f"0.0.0.0/{adapter.subnetMask}").prefixlen
    return NicSetting(
        addresses=(f"{adapter.ip.ipAddress}/{prefix}",),
        gateway=next(iter(adapter.gateway or ()), ""),
        dns=dns,
    )


def _tell(lab: Simulation, vm: VirtualMachine, kind: str, text: str) -> None:
    where = f" Customization log located at {LOG} in the guest OS."
    record(lab, vm, kind, by="", logLocation=LOG, fullFormattedMessage=text.format(vm.name) + where)
