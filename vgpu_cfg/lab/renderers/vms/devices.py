"""How a VM's devices show: what hangs off each controller, and which networks and datastores they use."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.simulation.context import Context, referred
from vgpu_cfg.lab.state.devices import disks_of, network_of, nics_of, with_uuid
from vgpu_cfg.lab.state.inventory import VirtualMachine

MIB = 1024 * 1024


def devices(_context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the devices by key; controllers list the keys of their devices."""
    attached: dict[int, list[int]] = {}
    for key, device in thing.devices.items():
        if device.controllerKey is not None:
            attached.setdefault(device.controllerKey, []).append(key)
    return [_with_attached(device, attached.get(key)) for key, device in sorted(thing.devices.items())]


def _with_attached(device: Any, keys: list[int] | None) -> Any:
    """Return a controller that knows its devices, and a disk that an earlier lab has kept with a UUID.

    Values are shared between VMs, so it is a copy.
    """
    if isinstance(device, vim.vm.device.VirtualDisk) and not getattr(device.backing, "uuid", ""):
        return with_uuid(device)
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
