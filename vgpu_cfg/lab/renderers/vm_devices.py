"""How a VM's devices show: what hangs off each controller, and which networks and datastores they use."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.devices import disks_of, network_of, nics_of
from vgpu_cfg.lab.soap.context import Context, referred
from vgpu_cfg.lab.state import Network, VirtualMachine

MIB = 1024 * 1024


def devices(_context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the devices by key; controllers list the keys of their devices."""
    attached: dict[int, list[int]] = {}
    for key, device in thing.devices.items():
        if device.controllerKey is not None:
            attached.setdefault(device.controllerKey, []).append(key)
    return [_with_attached(device, attached.get(key)) for key, device in sorted(thing.devices.items())]


def _with_attached(device: Any, keys: list[int] | None) -> Any:
    """Return a controller that knows its devices. Values are shared between VMs, so it is a copy."""
    if not keys or not isinstance(device, vim.vm.device.VirtualController):
        return device
    shown = copy.copy(device)
    shown.device = sorted(keys)
    return shown


def networks(context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the networks of the VM's NICs, each once."""
    moids = dict.fromkeys(network_of(nic) for nic in nics_of(thing.devices))
    return referred(context, filter(None, moids))


def datastores(context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the datastores that hold the VM's files."""
    moids = dict.fromkeys([thing.datastore] if thing.datastore else [])
    for disk in disks_of(thing.devices):
        datastore = getattr(disk.backing, "datastore", None)
        if datastore is not None:
            moids[datastore._moId] = None
    return referred(context, moids)


def committed(thing: VirtualMachine) -> int:
    """Return the bytes that a VM's disks take; the lab counts them whole."""
    return sum((disk.capacityInKB or 0) * 1024 for disk in disks_of(thing.devices))


def guest_nics(context: Context, thing: VirtualMachine) -> list[Any] | None:
    """Render what VMware Tools tells of a running guest's NICs; addresses are made from the VM's number."""
    if not thing.is_on or thing.is_template:
        return None
    shown = []
    for index, nic in enumerate(nics_of(thing.devices)):
        network = context.state.find(network_of(nic), Network)
        address = ip_address(thing, index)
        shown.append(
            vim.vm.GuestInfo.NicInfo(
                network=network.name if network is not None else None,
                ipAddress=[address],
                macAddress=nic.macAddress,
                connected=True,
                deviceConfigId=nic.key,
            )
        )
    return shown


def ip_address(thing: VirtualMachine, index: int = 0) -> str:
    """Return the address of a running guest's NIC."""
    digits = "".join(char for char in thing.moid if char.isdigit())
    number = int(digits or 0)
    return f"10.{index}.{number >> 8 & 0xFF}.{number & 0xFF}"
