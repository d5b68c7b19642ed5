"""Which passed-through devices of VMs are NICs: a VM's own properties do not tell, its host's list does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import PassthroughDevice, Vm


def mark_nics(vms: Mapping[str, Vm], hosts: Iterable[Host]) -> dict[str, Vm]:
    """Return the VMs with their passed-through NICs marked as such.

    A function is a NIC where the VM's host lists it under PCI class 02xx. A device that names none is one
    where all ids that it allows are those of NICs of any host.
    """
    known = {host.moid: host for host in hosts}
    ids: dict[tuple[int, int], bool] = {}
    for host in known.values():
        for device in host.pci_devices:
            key = (device.vendor_id, device.device_id)
            ids[key] = ids.get(key, True) and device.is_nic
    return {moid: _with_nics(vm, known.get(vm.host_moid or ""), ids) for moid, vm in vms.items()}


def _with_nics(vm: Vm, host: Host | None, ids: Mapping[tuple[int, int], bool]) -> Vm:
    if vm.detail is None or not vm.detail.passthrough:
        return vm
    passthrough = tuple(
        device.model_copy(update={"is_nic": _is_nic(device, host, ids)}) for device in vm.detail.passthrough
    )
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"passthrough": passthrough})})


def _is_nic(device: PassthroughDevice, host: Host | None, ids: Mapping[tuple[int, int], bool]) -> bool:
    address = device.pci_id or device.assigned_id
    function = host.device(address) if host is not None and address is not None else None
    if function is not None:
        return function.is_nic
    return bool(device.allowed) and all(ids.get(pair, False) for pair in device.allowed)
