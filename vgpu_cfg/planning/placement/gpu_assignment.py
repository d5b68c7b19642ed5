"""From how many VMs go to a host to which GPU each of them gets there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.planning.capacity.passthrough_slots import match_slots
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.placement.demand import Demand, Variant
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import PatternItem, stack
from vgpu_cfg.planning.placement.place import in_order


@dataclass(frozen=True, slots=True)
class Assignment:
    """A VM for a host, with one of its variants; `seats` are the NUMA nodes of its vGPUs, then devices."""

    demand: Demand
    variant: Variant
    seats: tuple[int | None, ...]


@dataclass(slots=True)
class HostShare:
    """One host's share: VMs, sets of GPUs that become peers, and the most that each other GPU holds."""

    assignments: list[Assignment] = field(default_factory=list)
    sets: list[frozenset[int]] = field(default_factory=list)
    gpus: list[tuple[int, Mapping[PatternItem, int]]] = field(default_factory=list)


def assign_gpus(host: HostState, share: HostShare) -> tuple[HostState, dict[str, Fit]] | None:
    """Give every VM of a host its GPUs and devices; None if that is impossible like this.

    The simple way is kept unless the program's own answer has fewer unlike boards in a VM, or needs less of
    NUMA nodes, and of NICs that are far.
    """
    simple = _simply(host, share)
    if simple is not None and not any(_price(fit) != (0, 0, 0, 0) for fit in simple[1].values()):
        return simple
    found = [one for one in (simple, _as_counted(host, share)) if one is not None]
    return min(found, key=lambda one: _total(one[1].values()), default=None)


def _price(fit: Fit) -> tuple[int, int, int, int]:
    return (fit.unlike, int(fit.numa_level == 2), fit.far_nics, int(fit.numa_level == 1))


def _total(fits: Iterable[Fit]) -> tuple[int, ...]:
    return tuple(sum(figures) for figures in zip(*(_price(fit) for fit in fits), strict=True))


def _simply(host: HostState, share: HostShare) -> tuple[HostState, dict[str, Fit]] | None:
    """Let each VM take the best that is left, the hardest first."""
    state, fits = host.copy(), dict[str, Fit]()
    variants = {one.demand.vm: one.variant for one in share.assignments}
    for demand in in_order(one.demand for one in share.assignments):
        fit = next((one for one in state.fits(demand.shape) if one.variant == variants[demand.vm]), None)
        if fit is None:
            return None
        state.commit(demand, fit)
        fits[demand.vm] = fit
    return state, fits


def _as_counted(host: HostState, share: HostShare) -> tuple[HostState, dict[str, Fit]] | None:
    """Follow the counts of the solution to the letter."""
    left = [(gpu, dict(counts)) for gpu, counts in share.gpus]
    sets = list(share.sets)
    slots = _slots(host, share.assignments)
    if slots is None:
        return None
    chosen: dict[str, tuple[int, ...]] = {}
    held: dict[int, list[tuple[VgpuNeed, str, str]]] = {}
    assignments = sorted(
        share.assignments, key=lambda one: not any(nic.near_gpu for nic in one.demand.shape.nics)
    )
    for one in assignments:
        gpus = _gpus_for(host, one, left, sets)
        if gpus is None:
            return None
        chosen[one.demand.vm] = gpus
        for need, gpu in zip(one.variant, gpus, strict=True):
            held.setdefault(gpu, []).append((need, one.demand.vm, one.demand.line))
    state, fits = host.copy(), dict[str, Fit]()
    for gpu, vgpus in held.items():
        filled = stack(host.gpus[gpu], vgpus)
        if filled is None:
            return None
        state.gpus[gpu] = filled
    empty = host.copy()
    for one in assignments:
        demand = one.demand
        empty.nodes = state.nodes
        empty.holders, empty.given, empty.node_lines = state.holders, state.given, state.node_lines
        fit = empty.rated(demand.shape, one.variant, chosen[demand.vm], slots[demand.vm])
        if fit is None or not empty.keeps_apart(fit, demand.shape):
            return None
        state.settle(demand, fit)
        fits[demand.vm] = fit
    return state, fits


def _gpus_for(
    host: HostState,
    one: Assignment,
    left: list[tuple[int, dict[PatternItem, int]]],
    sets: list[frozenset[int]],
) -> tuple[int, ...] | None:
    shape = one.demand.shape
    gpus: list[int] = []
    joined: dict[int | None, list[int]] = {}
    for need, node in zip(one.variant, one.seats, strict=False):
        if host.is_grouped(need):
            if need.peers not in joined:
                size = sum(other.peers == need.peers for other in one.variant)
                members = next(
                    (
                        members
                        for members in sets
                        if len(members) == size
                        and host.gpus[min(members)].board_key == need.board_key
                        and (node is None or host.gpus[min(members)].node == node)
                    ),
                    None,
                )
                if members is None:
                    return None
                sets.remove(members)
                joined[need.peers] = sorted(members)
            gpus.append(joined[need.peers].pop(0))
            continue
        item = PatternItem(need, shape.line_apart)
        able = [entry for entry in left if entry[1].get(item, 0) > 0]
        found = next((entry for entry in able if node in (None, host.gpus[entry[0]].node)), None)
        if found is None:
            return None
        found[1][item] -= 1
        gpus.append(found[0])
    return tuple(gpus)


def _slots(host: HostState, assignments: Sequence[Assignment]) -> dict[str, tuple[str, ...]] | None:
    """Return the functions that each VM is passed through, None where they do not suffice.

    Those of a node are given to VMs that are to have them there before the others are.
    """
    given = {one.demand.vm: list(one.demand.shape.fixed) for one in assignments}
    taken = {address for addresses in given.values() for address in addresses}
    requests: dict[int | None, list[tuple[str, DeviceEntry]]] = {}
    for one in assignments:
        seats = one.seats[len(one.variant) :]
        for need, node in zip(one.demand.shape.dynamic, seats, strict=True):
            requests.setdefault(node, []).append((one.demand.vm, need))
    for node in sorted(requests, key=lambda one: (one is None, one)):
        free = [
            slot
            for slot in host.free_slots()
            if slot.pci.pci_id not in taken and node in (None, slot.pci.numa_node)
        ]
        matched = match_slots(free, [need for _, need in requests[node]])
        if matched is None:
            return None
        for (vm, _), address in zip(requests[node], matched, strict=True):
            given[vm].append(address)
            taken.add(address)
    return {vm: tuple(addresses) for vm, addresses in given.items()}
