"""What vCenter shows of a guest: what its tools tell, once it has booted and they run."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import nics_of_guest
from vgpu_cfg.lab.renderers.entity import attribute, constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.renderers.vms.config import guest_full_name, version_key
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import VirtualMachine


def has_tools(thing: VirtualMachine) -> bool:
    """Whether the tools run: they are installed, and the guest is up."""
    return thing.is_on and thing.tools_installed and guest_of(thing).is_up


def _reported(value: Any, otherwise: Any = None) -> Render:
    """Return a renderer of what is one thing while the tools run, and another while they do not."""
    return lambda _context, thing: value if has_tools(thing) else otherwise


def _version_status(_context: Context, thing: VirtualMachine) -> str:
    return "guestToolsUnmanaged" if thing.tools_installed else "guestToolsNotInstalled"


def _tools_status(_context: Context, thing: VirtualMachine) -> str:
    if not thing.tools_installed:
        return "toolsNotInstalled"
    return "toolsOk" if has_tools(thing) else "toolsNotRunning"


def addresses_of(context: Context, thing: VirtualMachine) -> list[str]:
    """Return the first address of each NIC, as the tools tell them."""
    if not has_tools(thing):
        return []
    return [nic.ipv4 for nic in nics_of_guest(context.state, thing) if nic.ipv4]


def _address(context: Context, thing: VirtualMachine) -> str | None:
    return next(iter(addresses_of(context, thing)), None)


def _nics(context: Context, thing: VirtualMachine) -> list[Any] | None:
    """Render what the tools tell of NICs: of one that is handed through no device of the VM is known."""
    if not has_tools(thing):
        return None
    return [
        vim.vm.GuestInfo.NicInfo(
            network=nic.network or None,
            ipAddress=[address.partition("/")[0] for address in nic.addresses],
            macAddress=nic.mac,
            connected=True,
            deviceConfigId=nic.key,
            ipConfig=vim.net.IpConfigInfo(
                ipAddress=[
                    vim.net.IpConfigInfo.IpAddress(
                        ipAddress=address.partition("/")[0],
                        prefixLength=int(address.partition("/")[2] or 32),
                        state="preferred",
                    )
                    for address in nic.addresses
                ]
            ),
        )
        for nic in nics_of_guest(context.state, thing)
    ]


TOOLS: dict[str, Render] = {
    "toolsStatus": _tools_status,
    "toolsVersionStatus": _version_status,
    "toolsVersionStatus2": _version_status,
    "toolsRunningStatus": _reported("guestToolsRunning", "guestToolsNotRunning"),
    "guestId": attribute(lambda thing: thing.guest_id if has_tools(thing) else None),
    "guestFullName": attribute(lambda thing: guest_full_name(thing.guest_id) if has_tools(thing) else None),
    "hostName": attribute(lambda thing: guest_of(thing).host_name if has_tools(thing) else None),
    "ipAddress": _address,
    "hwVersion": attribute(lambda thing: version_key(thing.hardware_version)),
}

GUEST: dict[str, Render] = {
    **TOOLS,
    "toolsVersion": attribute(lambda thing: "12389" if thing.tools_installed else "0"),
    "guestFamily": _reported("linuxGuest"),
    "net": _nics,
    "guestState": _reported("running", "notRunning"),
    "guestOperationsReady": _reported(value=True, otherwise=False),
    "interactiveGuestOperationsReady": constant(value=False),
    "guestStateChangeSupported": _reported(value=True, otherwise=False),
}
