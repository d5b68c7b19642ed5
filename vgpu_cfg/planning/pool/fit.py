"""How many more VMs of a shape fit, host by host: copies are put on each until there is no place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.pool.limits import COPY, Limit, find_limits
from vgpu_cfg.planning.remedies.advice import REMEDIES, closeness

MOST_COPIES = 10_000
"""Where the count of one host ends; nothing real comes near it."""
_MADE_BY_VMS = (Code.SAME_SIZE_LOCK, Code.GPU_FULL, Code.MIXED_SIZE_NO_ROOM, Code.NO_MIG_SLICE)


@dataclass(frozen=True, slots=True)
class Gain:
    """How many more would fit on a host without a VM that keeps GPUs from others with little.

    It is alone on them, has less than half of each, and as it is they take none of what is asked.
    """

    vm: str
    more: int


@dataclass(frozen=True, slots=True)
class HostFit:
    """How many fit on one host, and why no more.

    `numa_tight` counts those that get a place on NUMA nodes promised to others, or too small.
    """

    host: Host
    count: int
    limits: tuple[Limit, ...] = ()
    gains: tuple[Gain, ...] = ()
    numa_tight: int = 0


def fit_on(state: HostState, shape: Shape) -> HostFit:
    """Count the copies that one host takes; `state` stays as it is."""
    trial = state.copy()
    count, tight = _fill(trial, shape)
    limits = find_limits(trial, shape)
    return HostFit(state.host, count, limits, _gains(state, shape, count, limits), tight)


def how_many(states: Sequence[HostState], shape: Shape) -> tuple[HostFit, ...]:
    """Count on every host that is in question for the shape, in the order of its clusters.

    Of idle hosts as many as the shape asks for stay free, those that take the fewest.
    """
    found = [fit_on(states[index], shape) for index, _ in shape.hosts]
    idle = [place for place, (index, _) in enumerate(shape.hosts) if not states[index].is_in_use]
    kept = shape.keep_free - sum(found[place].count == 0 for place in idle) if shape.has_gpus else 0
    for place in sorted((place for place in idle if found[place].count), key=lambda one: found[one].count):
        if kept > 0:
            limit = Limit(Code.SPREAD_IMPOSSIBLE, f"kept free, as one of {shape.keep_free}")
            found[place] = replace(found[place], count=0, limits=(limit,), gains=(), numa_tight=0)
            kept -= 1
    return tuple(found)


def next_step(fits: Sequence[HostFit]) -> str:
    """Say what would make room where nothing fits: what stands closest to a place, and its remedy."""
    if any(fit.count for fit in fits):
        return ""
    closest = max(
        ((limit, fit) for fit in fits for limit in fit.limits[:1]),
        key=lambda pair: (bool(pair[1].gains), closeness(pair[0].code), pair[0].gpus),
        default=None,
    )
    if closest is None:
        return "no host is in question"
    limit, fit = closest
    steps = [f"without {gain.vm} there would be room for {gain.more}" for gain in fit.gains[:1]]
    steps += [f"or {remedy}" if steps else remedy] if (remedy := REMEDIES.get(limit.code, "")) else []
    return "; ".join([f"nothing fits: {limit.text} ({fit.host.name})", *steps])


def _fill(trial: HostState, shape: Shape) -> tuple[int, int]:
    """Put copies on a host until it has no place; return how many, and how many of them are tight."""
    count = tight = 0
    while count < MOST_COPIES and (found := trial.fit(shape)) is not None:
        trial.commit(Demand(COPY, shape.line, shape), found)
        tight += found.numa_level > 0
        count += 1
    return count, tight


def _gains(state: HostState, shape: Shape, count: int, limits: Sequence[Limit]) -> tuple[Gain, ...]:
    """Try the host without each such VM; memory aside."""
    if not any(limit.code in _MADE_BY_VMS for limit in limits):
        return ()
    requested = {need for variant in shape.variants for need in variant}
    alone: dict[str, list[int]] = {}
    for index, gpu in enumerate(state.gpus):
        vms = {held.vm for held in gpu.held}
        has_little = gpu.board and 2 * gpu.free_framebuffer_mib > gpu.board.framebuffer_mib
        if len(vms) == 1 and has_little and all(gpu.refuse(need) for need in requested):
            alone.setdefault(vms.pop(), []).append(index)
    gains = []
    for vm, indexes in alone.items():
        without = state.copy()
        without.creatable = None
        for index in indexes:
            without.gpus[index].held = []
        more = _fill(without, shape)[0] - count
        if more > 0:
            gains.append(Gain(vm, more))
    return tuple(sorted(gains, key=lambda gain: (-gain.more, gain.vm)))
