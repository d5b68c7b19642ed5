"""The functions of physical NICs for a VM, as devices, and the edits that give it exactly those.

Belief: virtual-function-mac-is-fixed, pvrdma-by-the-api.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vgpu_cfg.changes.kinds.vm_spec import NewDynamicPassthrough, NewPassthrough, NewSriovNic, RemoveDevice
from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.observed.inventory import Host, PciDevice
from vgpu_cfg.model.observed.vm import VirtualNic, VmDetail, any_text
from vgpu_cfg.planning.capacity.nic_needs import host_functions, is_matching
from vgpu_cfg.planning.vms.lookup.nic_match import FunctionDevice, need_of, pair_functions, single_functions
from vgpu_cfg.planning.vms.lookup.wanted import NewFunction, PlannedFunction, WantedFunction
from vgpu_cfg.planning.vms.settings.edits import VmEdit, device_edit
from vgpu_cfg.planning.vms.settings.setting import Topic


def plan_functions(
    wanted: Sequence[WantedFunction], own: VmDetail | None, host: Host | None, chosen: Sequence[str]
) -> tuple[PlannedFunction, ...]:
    """Say which device each function is: the one that a VM which exists (`own`) has, else the one chosen.

    `chosen` are the addresses that placement gave, one for each of `wanted`; empty where it gave none.
    """
    pairs = pair_functions(wanted, own, host) if own is not None else {}
    found = []
    for index, nic in enumerate(wanted):
        note = nic.called if nic.function.kind == "passthrough" else ""
        kept = pairs.get(index)
        if kept is not None:
            found.append(PlannedFunction(keeps=kept.key, note=note))
        elif host is not None and index < len(chosen):
            found.append(PlannedFunction(_device(nic, chosen[index], host), note=note))
        else:
            found.append(PlannedFunction(note=note))
    return tuple(found)


def compare_functions(
    wanted: Sequence[PlannedFunction], detail: VmDetail, names: Mapping[str, str]
) -> Iterator[VmEdit]:
    """Yield the edits that give a VM exactly these functions; `names` spells the networks of those it has."""
    kept = {plan.keeps for plan in wanted}
    for device in single_functions(detail):
        if device.key not in kept:
            was = own_text(device, names)
            yield device_edit(
                Topic.NIC, Edit(key="nic", before=was), [RemoveDevice(key=device.key, was=was)], is_late=True
            )
    for plan in wanted:
        if plan.device is not None:
            edit = Edit(key="nic", after=plan.device.text, note=plan.note)
            yield device_edit(Topic.NIC, edit, [plan.device], is_late=True)


def own_text(device: FunctionDevice, names: Mapping[str, str]) -> str:
    """Spell a device that a VM has."""
    if isinstance(device, VirtualNic):
        of = f" of {device.function}" if device.function else ""
        return f"virtual function{of} on {names.get(device.network, device.network or 'no network')}"
    if device.pci_id is not None:
        return f"passthrough {device.pci_id}"
    return any_text(device.allowed, (), device.label)


def _device(nic: WantedFunction, pci_id: str, host: Host) -> NewFunction:
    if nic.function.kind == "sriov" and nic.backing is not None:
        return NewSriovNic(backing=nic.backing, function=pci_id, mac=nic.mac or nic.new_mac)
    function = nic.function
    if function.label is not None and function.pin is None:
        return NewDynamicPassthrough(allowed=_allowed(nic, host), label=function.label)
    pci = next((one for one in host_functions(host) if one.pci_id == pci_id), None)
    return fixed_device(pci_id, pci, host)


def fixed_device(pci_id: str, pci: PciDevice | None, host: Host | None) -> NewPassthrough:
    """Return the device that names one function of one host, with what its backing needs."""
    return NewPassthrough(
        pci_id=pci_id,
        system_id=(host.system_id or "") if host is not None else "",
        vendor_id=pci.vendor_id if pci is not None else 0,
        device_id=pci.device_id if pci is not None else 0,
        device_name=pci.device_name if pci is not None else "",
    )


def _allowed(nic: WantedFunction, host: Host) -> tuple[tuple[int, int], ...]:
    """Return the ids of the host's functions that have the label and the model."""
    need = need_of(nic)
    matching = [pci for pci in host_functions(host) if is_matching(pci, need)]
    return tuple(sorted({(pci.vendor_id, pci.device_id) for pci in matching}))
