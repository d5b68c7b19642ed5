"""Passthrough of whole PCI functions at a power-on: fixed ones of this host, dynamic ones by id and label."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.state.devices import dynamic_of, fixed_of
from vgpu_cfg.lab.state.inventory import Host, PciDevice, VirtualMachine

LOW_16_BITS = 0xFFFF


def assign_whole_devices(vm: VirtualMachine, host: Host) -> dict[int, str]:
    """Return device key → PCI address for a VM's fixed and dynamic devices. Raises the host's refusal."""
    taken: dict[int, str] = {}
    for device in fixed_of(vm.devices):
        _check_fixed(device.backing, host)
        _check_free(vm, host, device.backing.id, taken)
        taken[device.key] = device.backing.id
    for device in dynamic_of(vm.devices):
        found = next(
            (pci for pci in host.pci_devices() if _suits(device.backing, pci, host, vm, taken)), None
        )
        if found is None:
            raise refusals.no_assignable_device(device)
        taken[device.key] = found.pci_id
    return taken


def _check_fixed(backing: Any, host: Host) -> None:
    pci = next((pci for pci in host.pci_devices() if pci.pci_id == backing.id), None)
    bus, slot, function = _numbers(backing.id)
    if pci is None or not host.is_passed_through(pci.pci_id):
        raise refusals.not_a_passthrough_device(bus, slot, function)
    same_device = (
        _hex(backing.deviceId) == pci.device_id and (backing.vendorId & LOW_16_BITS) == pci.vendor_id
    )
    if backing.systemId != host.system_id or not same_device:
        raise refusals.wrong_system_id(bus, slot, function)


def _check_free(vm: VirtualMachine, host: Host, pci_id: str, taken: dict[int, str]) -> None:
    holder = host.passthrough_of(pci_id).vm
    if pci_id in taken.values() or holder not in (None, vm.moid):
        vm.log.append(f"The device at {pci_id} is in use by another virtual machine.")
        raise refusals.device_power_on_failed()


def _suits(backing: Any, pci: PciDevice, host: Host, vm: VirtualMachine, taken: dict[int, str]) -> bool:
    state = host.passthrough_of(pci.pci_id)
    if not state.active or state.vm not in (None, vm.moid) or pci.pci_id in taken.values():
        return False
    if backing.customLabel and backing.customLabel != state.label:
        return False
    return any(_is_allowed(allowed, pci) for allowed in backing.allowedDevice)


def _is_allowed(allowed: Any, pci: PciDevice) -> bool:
    pairs = (
        (allowed.vendorId, pci.vendor_id),
        (allowed.deviceId, pci.device_id),
        (allowed.subVendorId, pci.subvendor_id),
        (allowed.subDeviceId, pci.subdevice_id),
    )
    return all(wanted is None or wanted & LOW_16_BITS == there for wanted, there in pairs)


def _numbers(pci_id: str) -> tuple[int, int, int]:
    try:
        _, bus, rest = pci_id.split(":")
        slot, function = rest.split(".")
        return int(bus, 16), int(slot, 16), int(function, 16)
    except ValueError:
        return 0, 0, 0


def _hex(text: str) -> int | None:
    try:
        return int(text, 16)
    except ValueError:
        return None
