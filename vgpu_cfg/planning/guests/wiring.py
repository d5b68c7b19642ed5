"""The wiring of a VM's GPUs and RDMA NICs in its host, as far as certain before ESXi chooses: for its guest.

A guest sees virtual bridges only. The plan's description of the host's real wiring must hold for any GPU that
a vGPU gets at power-on, and must be the same in every later run: so choices of ESXi that would make a
difference are left out, also once made. A VM that moves to a host with other wiring has another wiring.

Belief: nccl-adds-devices-to-the-topology, gpus-have-plan-order, virtual-nodes-have-host-order,
guest-sees-max-link-speed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.guests.modules import Wire
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.pci_tree import PciTree

_MOST_CHOICES = 4096
"""How many choices of ESXi's are looked at; where there are more, nothing is said."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """The wires of a VM's GPUs and of its RDMA NICs, in the plan's order; empty where they are not sure."""

    gpus: tuple[Wire, ...] = ()
    nics: tuple[Wire, ...] = ()


NO_WIRING = Wiring()

_Raw = tuple[int, tuple[str, ...]]
"""The NUMA node, and the switches above a device by their upstream ports, the top one first."""


def planned_wirings(
    desired: DesiredPlan, observed: Inventory, placements: Iterable[Placement]
) -> dict[str, Wiring]:
    """Return the wiring of each VM that has a place."""
    places = {one.vm: (one.host_moid, one.nic_pci_ids) for one in placements}
    return _wirings(desired, observed, places)


def observed_wirings(
    desired: DesiredPlan, observed: Inventory, existing: Mapping[str, Vm]
) -> dict[str, Wiring]:
    """Return the wiring of each VM where it is; `existing` are the plan's own by their names."""
    wanted = {vm.name: vm for vm in desired.vms}
    places = {
        name: (vm.host_moid or "", _functions(wanted[name], vm))
        for name, vm in existing.items()
        if name in wanted
    }
    return _wirings(desired, observed, places)


def _functions(wanted: DesiredVm, vm: Vm) -> tuple[str, ...]:
    """Return the functions behind a VM's NICs as it has them, in the plan's order."""
    if vm.detail is None:
        return ()
    whole = [device.pci_id or device.assigned_id or "" for device in vm.detail.passthrough_nics]
    virtual = [nic.function or "" for nic in vm.detail.nics if nic.function]
    found: list[str] = []
    for nic in wanted.nics:
        if nic.function is not None:
            left = whole if nic.function.kind == "passthrough" else virtual
            found.append(left.pop(0) if left else "")
    return tuple(found)


def _wirings(
    desired: DesiredPlan, observed: Inventory, places: Mapping[str, tuple[str, Sequence[str]]]
) -> dict[str, Wiring]:
    found: dict[str, Wiring] = {}
    for vm in desired.vms:
        moid, functions = places.get(vm.name, ("", ()))
        host = observed.host_by_moid.get(moid)
        if host is not None and vm.gpus and any(nic.rdma for nic in vm.nics):
            found[vm.name] = wiring_of(vm, host, functions)
    return found


def wiring_of(vm: DesiredVm, host: Host, functions: Sequence[str]) -> Wiring:
    """Return how a VM's devices hang in a host, `functions` being those behind its NICs that have one."""
    tree = PciTree(host)
    nodes = {device.pci_id: device.numa_node for device in host.pci_devices}
    nodes |= {nic.pci_id: nic.numa_node for nic in host.nics if nic.pci_id and nic.numa_node is not None}
    nodes |= {gpu.pci_id: gpu.numa_node for gpu in host.gpus}

    def raw(pci_id: str) -> _Raw | None:
        node = nodes.get(pci_id)
        # As NCCL counts a real host: of the bridges above a device every second one is a switch, the others
        # are its ports (`ncclTopoGetXmlFromSys` goes up two at a time).
        return None if node is None else (node, tuple(reversed(tree.chain(pci_id)[1::2])))

    nics = [raw(pci_id) if pci_id else None for pci_id in _rdma_functions(vm, functions)]
    possible = [_possible(vm, index, host) for index in range(len(vm.gpus))]
    choices = [[raw(pci_id) for pci_id in some] for some in possible]
    if not nics or None in nics or any(not some or None in some for some in choices):
        return NO_WIRING
    count = 1
    for some in choices:
        count *= len(set(some))
    if count > _MOST_CHOICES:
        return NO_WIRING
    made = {
        _numbered([one for one in (*chosen, *nics) if one is not None], len(vm.gpus))
        for chosen in product(*(dict.fromkeys(some) for some in choices))
    }
    if len(made) != 1:
        return NO_WIRING
    wiring = made.pop()
    # The guest sees the link of a GPU in passthrough for itself.
    links = (
        _link(host, some) if gpu.kind == "vgpu" else {} for gpu, some in zip(vm.gpus, possible, strict=True)
    )
    gpus = (wire.model_copy(update=link) for wire, link in zip(wiring.gpus, links, strict=True))
    return Wiring(tuple(gpus), wiring.nics)


def _link(host: Host, possible: Sequence[str]) -> dict[str, Any]:
    """Return the PCIe link of the boards that a vGPU can be on, {} if it is not sure."""
    boards = [load_catalog().of_device(gpu.pci) for gpu in host.gpus if gpu.pci_id in possible]
    links = {board.link if board is not None else None for board in boards}
    link = links.pop() if len(links) == 1 else None
    return {} if link is None else {"rate": link[0], "lanes": link[1]}


def _rdma_functions(vm: DesiredVm, functions: Sequence[str]) -> list[str]:
    """Return the functions of the NICs that carry RDMA; "" for one without any, or if unknown."""
    left = list(functions)
    found: list[str] = []
    for nic in vm.nics:
        function = (left.pop(0) if left else "") if nic.function is not None else ""
        if nic.rdma is not None:
            found.append(function)
    return found


def _possible(vm: DesiredVm, index: int, host: Host) -> list[str]:
    """Return the GPUs that a VM's GPU can be: the one that is named, else any that the host shares out."""
    gpu = vm.gpus[index]
    if gpu.pin:
        return [gpu.pin]
    return [one.pci_id for one in host.gpus if not one.is_passthrough] if gpu.kind == "vgpu" else []


def _numbered(devices: Sequence[_Raw], gpus: int) -> Wiring:
    """Give nodes numbers in the host's order, and switches as the devices meet them."""
    nodes = sorted({node for node, _ in devices})
    switches: dict[str, int] = {}
    for _, above in devices:
        for switch in above:
            switches.setdefault(switch, len(switches) + 1)
    wires = tuple(
        Wire(node=nodes.index(node), switches=tuple(switches[one] for one in above))
        for node, above in devices
    )
    return Wiring(wires[:gpus], wires[gpus:])
