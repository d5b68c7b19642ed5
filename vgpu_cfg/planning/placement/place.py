"""The host of every VM: the methods, one after the other, and their result; the first is greedy.

Greedy placement starts with the hardest VMs, each on the host where it leaves the most. Reproducible: no
clock, no randomness, one order of hosts and VMs whatever the order they come in. Three verdicts: placed,
proven impossible, undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush

from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import ShapeFits, SharedFits

KeptFree = Sequence[tuple[Collection[int], int]]
"""Hosts by index, with how many of them stay without any GPU VM."""


class NoPlace(StrEnum):
    """The known facts of a VM that got no place."""

    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


@dataclass(slots=True)
class Attempt:
    """The result of one placer. `is_proof` is whether no placement is better: of those left none has a place.

    `least_left` is how many VMs have no place in any placement, as far as that is proven. `initial` are the
    hosts before any VM was put on them.
    """

    hosts: list[HostState]
    initial: Sequence[HostState]
    fits: dict[str, Fit] = field(default_factory=dict)
    left: list[Demand] = field(default_factory=list)
    is_proof: bool = False
    least_left: int = 0

    def put(self, demand: Demand, fit: Fit | None) -> None:
        """Put a VM where it fits, None if it has no place."""
        if fit is None:
            self.left.append(demand)
        else:
            self.hosts[fit.host].commit(demand, fit)
            self.fits[demand.vm] = fit


Placer = Callable[[Sequence[HostState], Sequence[Demand]], Attempt]
"""A way to place as many VMs as can be; the hosts are not changed, the attempt holds its own."""


@dataclass(slots=True)
class Placed:
    """The outcome for all VMs. `initial` are the hosts before any VM of the plan was put on them.

    `kept` is the room that the VMs request to stay free, `most_placed` how many VMs at most any placement has
    a place for, as far as that is proven.
    """

    initial: list[HostState]
    hosts: list[HostState]
    fits: dict[str, Fit]
    failed: dict[str, tuple[Demand, NoPlace]]
    kept: KeptFree = ()
    most_placed: int = 0


def in_order(demands: Iterable[Demand]) -> list[Demand]:
    """Sort the hardest first; like ones by name."""
    return sorted(demands, key=lambda demand: (demand.shape.hardness, demand.vm))


def kept_free(demands: Iterable[Demand]) -> KeptFree:
    """List the requested free hosts: of these hosts so many, for any VMs."""
    requested = {(demand.shape.hosts, demand.shape.keep_free) for demand in demands if demand.shape.keep_free}
    return [(frozenset(index for index, _ in ranked), count) for ranked, count in sorted(requested)]


def place(
    hosts: Sequence[HostState],
    demands: Sequence[Demand],
    placers: Sequence[Placer],
    polish: Callable[[Attempt, Sequence[Demand]], None] = lambda _attempt, _demands: None,
) -> Placed:
    """Place all VMs: the first placer's way, and where that leaves some, the next one's; then polish that.

    A VM that fits nowhere even without the others is proven impossible and is not tried again.
    """
    initial = [host.copy() for host in hosts]
    first, *others = placers
    attempt = first(hosts, demands)
    failed = _proven_impossible(hosts, attempt.left)
    left = [demand for demand in attempt.left if demand.vm not in failed]
    possible = [demand for demand in demands if demand.vm not in failed]
    least_left = 0
    for placer in others if left else ():
        other = placer(hosts, possible)
        least_left = max(least_left, len(other.left) if other.is_proof else other.least_left)
        if other.is_proof or len(other.left) < len(left):
            attempt, left = other, other.left
        if not left or least_left:
            break
    polish(attempt, demands)
    verdict = NoPlace.IMPOSSIBLE if least_left else NoPlace.UNDECIDED
    failed |= {demand.vm: (demand, verdict) for demand in left}
    return Placed(
        initial, attempt.hosts, attempt.fits, failed, kept_free(demands), len(possible) - least_left
    )


def _proven_impossible(
    hosts: Sequence[HostState], left: Sequence[Demand]
) -> dict[str, tuple[Demand, NoPlace]]:
    """Name the VMs that have no place even where they are the only ones to be placed."""
    shared = SharedFits(hosts)
    fits_somewhere = {
        shape: shared.of(shape).is_anywhere for shape in dict.fromkeys(demand.shape for demand in left)
    }
    return {demand.vm: (demand, NoPlace.IMPOSSIBLE) for demand in left if not fits_somewhere[demand.shape]}


def place_greedily(hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
    """Place as many as can be: fast, and seldom wrong; it proves nothing."""
    attempt = Attempt([host.copy() for host in hosts], hosts)
    for demand in in_order(one for one in demands if one.stays):
        fits = (fit for index, _ in demand.shape.hosts if (fit := attempt.hosts[index].fit(demand.shape)))
        attempt.put(demand, next(fits, None))
    kept = kept_free(demands)
    groups: dict[Shape, list[Demand]] = {}
    for demand in in_order(one for one in demands if not one.stays):
        groups.setdefault(demand.shape, []).append(demand)
    shared = SharedFits(attempt.hosts)
    for shape, group in groups.items():
        _place_group(shared.of(shape), group, attempt, kept)
    return attempt


def _place_group(fits: ShapeFits, group: Sequence[Demand], attempt: Attempt, kept: KeptFree) -> None:
    """Rate every host once for VMs that are alike, and anew only the host that took one."""
    shape, ranks = fits.shape, dict(fits.shape.hosts)
    rated = [
        (score(fit, ranks[index], attempt.hosts[index], shape), fit.gpus, fit)
        for index in ranks
        if (fit := fits.on(index)) is not None
    ]
    queue = [(points, gpus, number, fit) for number, (points, gpus, fit) in enumerate(rated)]
    heapify(queue)
    number = len(queue)
    for demand in group:
        fit = None
        while queue and fit is None:
            *_, fit = heappop(queue)
            if not may_use(shape, fit.host, attempt.hosts, kept):
                fit = None
        attempt.put(demand, fit)
        if fit is None:
            continue
        host = attempt.hosts[fit.host]
        fits.took(fit.host, demand.line)
        if (again := fits.on(fit.host)) is not None:
            number += 1
            heappush(queue, (score(again, ranks[fit.host], host, shape), again.gpus, number, again))


def may_use(shape: Shape, index: int, hosts: Sequence[HostState], kept: KeptFree) -> bool:
    """Whether a host may get a GPU VM without leaving fewer free than is asked."""
    if not shape.has_gpus or hosts[index].is_in_use:
        return True
    return all(
        index not in among or sum(not hosts[one].is_in_use for one in among) > count for among, count in kept
    )


FIGURES = (
    "disturbance",
    "unlike",
    "too_small",
    "rank",
    "variant",
    "numa",
    "far_nics",
    "together",
    "mixed",
    "opened",
    "lost_starts",
    "lost_sets",
    "host",
)
"""The figures of a score, in its order."""


def score(fit: Fit, rank: int, host: HostState, shape: Shape) -> tuple[int, ...]:
    """Rate a fit by FIGURES; the lowest is the best.

    The disturbance of preparing the host counts most, then unlike boards in a VM, a NUMA node that is too
    small, the order of clusters and of profiles in the plan file, NUMA room, NICs far from their GPUs, VMs of
    the line that are there already, other sizes that the plan puts there; then whole GPUs, free 4g starts and
    whole sets of NVLink peers that it would cost.
    """
    together = host.residents.get(shape.line, 0) if shape.spread is not None or shape.pack else 0
    variant = shape.variants.index(fit.variant) if fit.variant else 0
    is_mixed = int(bool(fit.variant) and host.mixes(fit.variant))
    return (
        host.cost_of_next,
        fit.unlike,
        int(fit.numa_level == 2),
        rank,
        variant,
        fit.numa_level,
        fit.far_nics,
        -together if shape.pack else together,
        is_mixed,
        fit.opened,
        fit.lost_starts,
        fit.lost_sets,
        fit.host,
    )
