"""The life of a guest: booting after a power-on, customized, up, restarting for itself, gone with its power.

Slow work of a guest (a boot, a module being staged) is an event of the lab's clock, as tasks are: it is done
when a client waits for that long.

A kept customization is applied at the guest's next start, and logged by vCenter. Source: the types of vim
`CustomizationEvent`. Texts, and that a failed one leaves nothing, are recalled.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from typing import Any, Literal

from pyVmomi import vim

from vgpu_cfg.lab.guest.system.creation import guest_of, stop
from vgpu_cfg.lab.guest.system.gpus import gpus_of_guest
from vgpu_cfg.lab.guest.system.workloads import end_all
from vgpu_cfg.lab.rules.customization import PENDING_KEY, name_of_host
from vgpu_cfg.lab.simulation.past_events import record
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import nics_of
from vgpu_cfg.lab.state.guest import NicSetting
from vgpu_cfg.lab.state.inventory import VirtualMachine

GOING_SECONDS = 2.0
"""How long a guest that restarts for a module still answers."""


def boot(lab: Simulation, vm: VirtualMachine, *, after: Literal["power on", "restart"] = "restart") -> None:
    """Let a guest begin to boot: its VM was just powered on or reset, or it restarts for itself.

    The firmware waits for the boot delay first, at a power-on as at a restart (VirtualMachineBootOptions).
    """
    from vgpu_cfg.lab.guest.staging import command as staging

    guest = guest_of(vm)
    lab.note(vm, after)
    end_all(lab, vm)
    stop(guest, goes_on=guest.staging is not None and staging.PENDING in guest.files)
    guest.phase = "booting"
    seconds = guest.boot_seconds + vm.boot_delay_ms / 1000
    guest.boot_due = lab.clock.now() + lab.clock.scaled(seconds * lab.task_seconds)
    lab.state.waking[vm.moid] = guest.boot_due
    lab.state.touch(vm)


def halt(lab: Simulation, vm: VirtualMachine) -> None:
    """Let a guest be gone: its VM lost its power."""
    lab.note(vm, "power off")
    end_all(lab, vm)
    is_booting = lab.state.waking.pop(vm.moid, None) is not None
    if (
        is_booting
        and vm.customization is not None
        and lab.state.denies("customization-survives-a-short-start")
    ):
        _begin_customization(lab, vm)
        _log_customization(lab, vm, "CustomizationUnknownFailure", _FAILED)
    if vm.made_guest is not None:
        stop(vm.made_guest)
        lab.state.touch(vm)


def settle(lab: Simulation) -> None:
    """Apply the due events in guests, in the order of their times."""
    now = lab.clock.now()
    while True:
        due = [(at, moid) for moid, at in lab.state.waking.items() if at <= now]
        if not due:
            return
        _, moid = min(due)
        del lab.state.waking[moid]
        vm = lab.state.find(moid, VirtualMachine)
        if vm is not None and vm.is_on:
            _wake(lab, vm)


def next_event(lab: Simulation) -> float | None:
    """Return when something happens in a guest next, None where nothing does."""
    return min(lab.state.waking.values(), default=None)


def _wake(lab: Simulation, vm: VirtualMachine) -> None:
    from vgpu_cfg.lab.guest import cloud_init
    from vgpu_cfg.lab.guest.staging import command as staging

    guest = guest_of(vm)
    if guest.phase == "booting":
        guest.phase, guest.boots = "up", guest.boots + 1
        guest.has_nouveau = guest.nouveau and not guest.driver and bool(gpus_of_guest(lab.state, vm))
        customize(lab, vm)
        cloud_init.boot(lab, vm)
        staging.resume(lab, vm)
        if guest.staging is not None and guest.staging.is_over:
            guest.staging = None  # it is of the boot before, and nothing is installed that goes on with it
    elif guest.staging is not None and guest.staging.status == staging.REBOOT:
        boot(lab, vm)
        return
    else:
        staging.advance(lab, vm)
    _after(lab, vm)
    lab.state.touch(vm)


def _after(lab: Simulation, vm: VirtualMachine) -> None:
    """Finish who waited for a staging that is over, and restart where it asked for that."""
    from vgpu_cfg.lab.guest.shell import finish_process
    from vgpu_cfg.lab.guest.staging import command as staging
    from vgpu_cfg.lab.guest.tools.table import find

    running = guest_of(vm).staging
    if running is None or not running.is_over:
        return
    finish_process(lab, vm, staging.STAGING, find)
    finish_process(lab, vm, staging.LOCK, find)
    if running.status == staging.REBOOT:
        lab.state.waking[vm.moid] = lab.clock.now() + lab.clock.scaled(GOING_SECONDS * lab.task_seconds)


LOG = "/var/log/vmware-imc/toolsDeployPkg.log"
CUSTOMIZATION_FAULT = "customization"
_CUSTOMIZATION_FAILURES = {
    "network": "CustomizationNetworkSetupFailed",
    "identity": "CustomizationLinuxIdentityFailed",
    "unknown": "CustomizationUnknownFailure",
}
"""The words of a guest's fault → the event for it."""

_FAILED = "An error occurred while customizing VM {}."
_Customization: Any = vim.vm.customization


def customize(lab: Simulation, vm: VirtualMachine) -> None:
    """Customize a guest that has just come up, if its VM was to be; without tools it goes on waiting."""
    spec = vm.customization
    if spec is None or not vm.tools_installed:
        return
    _begin_customization(lab, vm)
    failure = _CUSTOMIZATION_FAILURES.get(guest_of(vm).faults.get(CUSTOMIZATION_FAULT, ""))
    if failure is not None:
        _log_customization(lab, vm, failure, _FAILED)
        return
    guest = guest_of(vm)
    guest.host_name = name_of_host(vm, spec) or guest.host_name
    nics = nics_of(vm.devices)
    if lab.state.denies("customization-follows-pci-slots") or lab.state.denies("pci-slot-order"):
        nics = nics[::-1]
    for nic, mapping in zip(nics, spec.nicSettingMap or (), strict=False):
        setting = _nic_setting(mapping.adapter, spec.globalIPSettings)
        if setting is not None:
            guest.settings[nic.macAddress.lower()] = setting
    _log_customization(lab, vm, "CustomizationSucceeded", "Customization of VM {} succeeded.")


def _begin_customization(lab: Simulation, vm: VirtualMachine) -> None:
    vm.customization = None
    vm.extra_config.pop(PENDING_KEY, None)
    _log_customization(lab, vm, "CustomizationStartedEvent", "Started customization of VM {}.")


def _nic_setting(adapter: Any, everywhere: Any) -> NicSetting | None:
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


def _log_customization(lab: Simulation, vm: VirtualMachine, kind: str, text: str) -> None:
    where = f" Customization log located at {LOG} in the guest OS."
    record(lab, vm, kind, by="", logLocation=LOG, fullFormattedMessage=text.format(vm.name) + where)
