"""Places VMs so that all of a host can be started for certain, where that can be had."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from vgpu_cfg.planning.placement.demand import Demand, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.improve import improve
from vgpu_cfg.planning.placement.place import Placed, Placer, place
from vgpu_cfg.planning.placement.power_order import Start
from vgpu_cfg.planning.placement.start_queues import BoardStarts, StartOrder, order_starts

_MOST_TRIES = 4
_MANY = 300
"""So many VMs are not placed anew: the solver has shared them out so that they start where it could."""


def place_startable(
    hosts: Sequence[HostState],
    demands: Sequence[Demand],
    placers: Sequence[Placer],
    starting: Collection[str],
) -> Placed:
    """Place all VMs; where those `starting` on a host could strand one another, keep their sizes apart.

    A placement of fewer VMs is never taken for that, and where no try succeeds the first one stands.
    """
    demands = [replace(demand, starts=demand.vm in starting) for demand in demands]
    first = place(hosts, demands, placers, improve)
    placed, apart = first, set[tuple[int, Variant]]()
    for _ in range(_MOST_TRIES):
        lost = list(_lost(placed, starting))
        if not lost:
            return replace(placed, failed=first.failed, most_placed=first.most_placed)
        if len(demands) > _MANY:
            break
        for found in lost:
            smallest = min(found.starts, key=lambda start: (start.size, start.vm))
            apart.add((found.host.index, smallest.variant))
        placed = place(hosts, [_without(demand, apart) for demand in demands], placers, improve)
        if placed.failed.keys() != first.failed.keys():
            break
    return first


def _lost(placed: Placed, starting: Collection[str]) -> Iterator[BoardStarts]:
    """Yield the boards of hosts whose VMs start in no order that is certain."""
    by_host: dict[int, list[Start]] = {}
    for vm, fit in placed.fits.items():
        if vm in starting and fit.variant:
            by_host.setdefault(fit.host, []).append(Start(vm, fit.variant))
    for index, starts in sorted(by_host.items()):
        for found in order_starts(placed.initial[index], starts):
            if found.order is StartOrder.UNKNOWN:
                yield found


def _without(demand: Demand, apart: Collection[tuple[int, Variant]]) -> Demand:
    """Take the hosts from a VM on which vGPUs like its own are not wanted; one that stays keeps its host."""
    if demand.stays:
        return demand
    kept = tuple(
        pair
        for pair in demand.shape.hosts
        if not any((pair[0], variant) in apart for variant in demand.shape.variants)
    )
    return replace(demand, shape=replace(demand.shape, hosts=kept)) if kept else demand
