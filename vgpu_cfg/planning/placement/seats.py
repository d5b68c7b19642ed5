"""The NUMA nodes that a VM's vGPUs and devices can be of on a host.

A VM of two vGPUs may have both on node 0, both on node 1, or one on each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain, combinations_with_replacement, product
from math import prod

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.planning.capacity.passthrough_slots import is_match
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.placement.demand import Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState

Seats = tuple[int | None, ...]
"""The NUMA nodes of a VM's vGPUs, then of its devices, in their order; None: any, or unknown."""

_MOST_WAYS = 64
"""The limit of ways to spread a VM over nodes; beyond it the program does not distinguish them."""


def ways_to_seat(host: HostState, shape: Shape, needs: Variant) -> list[Seats]:
    """List the nodes that the vGPUs and devices of a VM could be of; one way if that does not matter."""
    things: list[VgpuNeed | DeviceEntry] = [*needs, *shape.dynamic]
    anywhere: Seats = (None,) * len(things)
    is_near = any(nic.near_gpu for nic in shape.nics)
    if not is_near and (shape.numa is not NumaPolicy.FOLLOW_GPU or not host.nodes):
        return [anywhere]
    parts: dict[VgpuNeed | DeviceEntry | int, list[int]] = {}
    for place, thing in enumerate(things):
        group = thing.peers if isinstance(thing, VgpuNeed) and host.is_grouped(thing) else None
        parts.setdefault(thing if group is None else group, []).append(place)
    ways = [_seats_of(host, things[places[0]], len(places)) for places in parts.values()]
    if not 0 < prod(map(len, ways)) <= _MOST_WAYS:
        return [anywhere]
    order = list(chain.from_iterable(parts.values()))
    nodes = (chain.from_iterable(chosen) for chosen in product(*ways))
    sorted_seats = (sorted(zip(order, each, strict=True)) for each in nodes)
    return list(dict.fromkeys(tuple(node for _, node in seats) for seats in sorted_seats))


def _seats_of(host: HostState, thing: VgpuNeed | DeviceEntry, count: int) -> Collection[Seats]:
    """Return the nodes that so many equal vGPUs or devices, or all NVLink peers of a group, could be of."""
    if isinstance(thing, DeviceEntry):
        nodes = {slot.pci.numa_node for slot in host.free_slots() if is_match(slot, thing)}
    elif host.is_grouped(thing):
        return dict.fromkeys(seats_of_set(host, one) for one in host.free_sets(thing, count, host.gpus))
    else:
        nodes = {gpu.node for gpu in host.gpus if gpu.refuse(thing) is None}
    known = sorted(nodes, key=lambda node: -1 if node is None else node)
    return list(combinations_with_replacement(known, count))


def seats_of_set(host: HostState, gpus: frozenset[int]) -> Seats:
    """Return the nodes of a set of GPUs, in their order."""
    return tuple(host.gpus[index].node for index in sorted(gpus))


def known_nodes(seats: Sequence[int | None]) -> frozenset[int]:
    """Return the nodes of GPUs; empty if one is not known."""
    nodes = frozenset(node for node in seats if node is not None)
    return frozenset() if None in seats else nodes


def tied_nodes(shape: Shape, seats: Sequence[int | None]) -> frozenset[int]:
    """Return the NUMA nodes that a VM is tied to by its GPUs' nodes; empty if that is open."""
    if shape.numa is NumaPolicy.NODE:
        return frozenset(shape.numa_nodes)
    return frozenset() if shape.numa is NumaPolicy.OFF else known_nodes(seats)
