"""Place VMs so that all of a host can be started for certain, if that is possible, and improve the result.

The ways to place are tried in order. An improvement is more whole GPUs, more free 4g starts, more whole
NVLink sets: one VM at a time goes to another host if that gains more than it costs and breaks no preference;
a bounded number of looks, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.planning.placement.demand import Demand, Variant
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import stack
from vgpu_cfg.planning.placement.place import (
    FIGURES,
    Attempt,
    KeptFree,
    Placed,
    Placer,
    in_order,
    kept_free,
    may_use,
    place,
    place_greedily,
    score,
)
from vgpu_cfg.planning.placement.start_queues import BoardStarts, Start, StartOrder, order_starts


def _solve(hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
    """Load the solver only if the greedy way has left VMs without a place."""
    from vgpu_cfg.planning.placement.solver import place_by_program

    return place_by_program(hosts, demands)


PLACERS = (place_greedily, _solve)
_MOST_TRIES = 4

_MANY = 300
"""So many VMs are not placed anew: the solver has shared them out so that they start where it could."""

_PREFERENCES = FIGURES.index("mixed")
"""How many of a score's first figures no gain outweighs: disturbance, the plan file's preferences, room."""


def place_startable(
    hosts: Sequence[HostState],
    demands: Sequence[Demand],
    placers: Sequence[Placer],
    starting: Collection[str],
) -> Placed:
    """Place all VMs; if those `starting` on a host could strand one another, keep their sizes apart.

    A placement of fewer VMs is never accepted for that, and if no try succeeds the first one is kept.
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


@dataclass(slots=True)
class _Budget:
    looks: int


def improve(attempt: Attempt, demands: Sequence[Demand], *, most_looks: int = 3_000, passes: int = 3) -> None:
    """Move VMs of an attempt to where they leave more, in place."""
    budget = _Budget(most_looks)
    movable = [demand for demand in in_order(demands) if demand.vm in attempt.fits and not demand.stays]
    kept = kept_free(demands)
    for _ in range(passes):
        moved = [demand for demand in movable if _move(demand, attempt, budget, kept)]
        if not moved:
            return


def _move(demand: Demand, attempt: Attempt, budget: _Budget, kept: KeptFree) -> bool:
    """Move one VM where that is better, and say whether it was."""
    fit = attempt.fits[demand.vm]
    home = attempt.hosts[fit.host]
    gain = _gain(home, demand, fit)
    if not any(gain):
        return False
    ranks = dict(demand.shape.hosts)
    without = home.copy()
    without.release(demand, fit)
    now = score(fit, ranks[fit.host], without, demand.shape)[:_PREFERENCES]
    best: tuple[tuple[int, ...], Fit] | None = None
    for index, rank in demand.shape.hosts:
        if index == fit.host or budget.looks <= 0 or not may_use(demand.shape, index, attempt.hosts, kept):
            continue
        budget.looks -= 1
        other = attempt.hosts[index].fit(demand.shape)
        if other is None:
            continue
        desired_settings = score(other, rank, attempt.hosts[index], demand.shape)[:_PREFERENCES]
        cost = (other.opened, other.lost_starts, other.lost_sets)
        if desired_settings <= now and cost < gain and (best is None or (*cost, index) < best[0]):
            best = ((*cost, index), other)
    if best is None or not _is_sound(without, attempt.initial[fit.host]):
        return False
    attempt.hosts[fit.host] = without
    attempt.hosts[best[1].host].commit(demand, best[1])
    attempt.fits[demand.vm] = best[1]
    return True


def _gain(host: HostState, demand: Demand, fit: Fit) -> tuple[int, int, int]:
    """Count the GPUs that become idle, the 4g starts and the sets of peers that become whole without a VM."""
    emptied, starts = set(), 0
    for index in sorted(set(fit.gpus)):
        left = host.gpus[index].copy()
        left.held = [held for held in left.held if held.vm != demand.vm]
        if left.is_idle:
            emptied.add(index)
        starts += left.has_4g_start and not host.gpus[index].has_4g_start
    whole = sum(
        not one.isdisjoint(emptied) and all(index in emptied or host.gpus[index].is_idle for index in one)
        for one in host.capacity.peer_sets
    )
    return (len(emptied), starts, whole)


def _is_sound(host: HostState, initial: HostState) -> bool:
    """Whether the rest can be placed on its GPUs without the VM that went away."""
    for gpu, empty in zip(host.gpus, initial.gpus, strict=True):
        own = [(held.need, held.vm, held.line) for held in gpu.held[len(empty.held) :] if held.need]
        if own and stack(empty, own) is None:
            return False
    return True
