"""Makes a good placement better: more whole GPUs, more free 4g starts, more whole NVLink sets.

One VM at a time goes to another host where that gains more than it costs and breaks no preference; a bounded
number of looks, in a fixed order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.greedy import may_use, score
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import stack
from vgpu_cfg.planning.placement.place import Attempt, KeptFree, in_order, kept_free

_PREFERENCES = 7
"""How many of a score's first figures no gain outweighs: disturbance, the plan file's preferences, room."""


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
    """Whether what is left can come to stand on its GPUs without the VM that went away."""
    for gpu, empty in zip(host.gpus, initial.gpus, strict=True):
        own = [(held.need, held.vm, held.line) for held in gpu.held[len(empty.held) :] if held.need]
        if own and stack(empty, own) is None:
            return False
    return True
