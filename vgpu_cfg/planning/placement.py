"""Which host every VM goes to: the greedy way, and the seam for others that try where it fails.

Reproducible: no clock, no randomness, one order of hosts and VMs whatever the order
they come in. Three verdicts: placed, proven impossible, undecided.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from heapq import heapify, heappop, heappush
from typing import Protocol

from vgpu_cfg.planning.demand import Demand, Shape
from vgpu_cfg.planning.host_state import Fit, HostState


class Verdict(StrEnum):
    """What is known of a VM that got no place."""

    IMPOSSIBLE = "impossible"
    UNDECIDED = "undecided"


@dataclass(slots=True)
class Attempt:
    """What one placer came to. `is_proof` tells that what is left cannot be placed by anybody."""

    hosts: list[HostState]
    fits: dict[str, Fit] = field(default_factory=dict)
    left: list[Demand] = field(default_factory=list)
    is_proof: bool = False


class Placer(Protocol):
    """A way to place VMs on hosts."""

    def place(self, hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
        """Place as many as can be; `hosts` are not changed, the attempt holds its own."""
        ...


@dataclass(slots=True)
class Placed:
    """The outcome for all VMs. `initial` are the hosts before any VM of the plan was put on them."""

    initial: list[HostState]
    hosts: list[HostState]
    fits: dict[str, Fit]
    failed: dict[str, tuple[Demand, Verdict]]


class GreedyPlacer:
    """Takes the hardest VMs first, each to the host where it leaves the most."""

    def place(self, hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
        """Place as many as can be."""
        attempt = Attempt([host.copy() for host in hosts])
        for demand in in_order(one for one in demands if one.stays):
            self._put(demand, [fit] if (fit := self._only_fit(attempt, demand)) else [], attempt)
        groups: dict[Shape, list[Demand]] = {}
        for demand in in_order(one for one in demands if not one.stays):
            groups.setdefault(demand.shape, []).append(demand)
        for shape, group in groups.items():
            self._place_group(shape, group, attempt)
        return attempt

    def _only_fit(self, attempt: Attempt, demand: Demand) -> Fit | None:
        return next(
            (fit for index, _ in demand.shape.hosts if (fit := attempt.hosts[index].fit(demand.shape))), None
        )

    def _put(self, demand: Demand, fits: Sequence[Fit], attempt: Attempt) -> None:
        if fits:
            attempt.hosts[fits[0].host].commit(demand, fits[0])
            attempt.fits[demand.vm] = fits[0]
        else:
            attempt.left.append(demand)

    def _place_group(self, shape: Shape, group: Sequence[Demand], attempt: Attempt) -> None:
        """Rate every host once for VMs that are alike, and anew only the host that took one."""
        ranks = dict(shape.hosts)
        rated = [
            (score(fit, ranks[index], attempt.hosts[index], shape), fit.gpus, fit)
            for index in ranks
            if (fit := attempt.hosts[index].fit(shape)) is not None
        ]
        queue = [(points, gpus, number, fit) for number, (points, gpus, fit) in enumerate(rated)]
        heapify(queue)
        number = len(queue)
        for demand in group:
            if not queue:
                attempt.left.append(demand)
                continue
            *_, fit = heappop(queue)
            host = attempt.hosts[fit.host]
            self._put(demand, [fit], attempt)
            if (again := host.fit(shape)) is not None:
                number += 1
                heappush(queue, (score(again, ranks[fit.host], host, shape), again.gpus, number, again))


def score(fit: Fit, rank: int, host: HostState, shape: Shape) -> tuple[int, ...]:
    """Rate a fit; the lowest is the best.

    A NUMA node that is too small counts most, then the order of clusters and of profiles in the
    plan file, NUMA room, VMs of the line that are there already, other sizes that the plan puts
    there, idle GPUs that it would open.
    """
    together = host.residents.get(shape.line, 0) if shape.line else 0
    variant = shape.variants.index(fit.variant) if fit.variant else 0
    is_mixed = int(bool(fit.variant) and host.mixes(fit.variant))
    return (int(fit.numa_level == 2), rank, variant, fit.numa_level, together, is_mixed, fit.opened, fit.host)


def in_order(demands: Iterable[Demand]) -> list[Demand]:
    """Sort the hardest first; like ones by name."""
    return sorted(demands, key=lambda demand: (demand.shape.hardness, demand.vm))


def place(hosts: Sequence[HostState], demands: Sequence[Demand], others: Sequence[Placer] = ()) -> Placed:
    """Place all VMs: the greedy way, and where that fails with the other placers in turn.

    A VM that fits nowhere even without the others, or one of a group that does not fit even
    alone, is proven impossible and does not keep the others from being placed.
    """
    greedy = GreedyPlacer()
    initial = [host.copy() for host in hosts]
    attempt = greedy.place(hosts, demands)
    failed: dict[str, tuple[Demand, Verdict]] = {}
    if attempt.left:
        hopeless = _hopeless(greedy, hosts, demands, attempt.left)
        failed = {demand.vm: (demand, Verdict.IMPOSSIBLE) for demand in attempt.left if demand.vm in hopeless}
        possible = [demand for demand in demands if demand.vm not in failed]
        left = [demand for demand in attempt.left if demand.vm not in failed]
        verdict = Verdict.UNDECIDED
        for placer in others if left else ():
            other = placer.place(hosts, possible)
            if not other.left:
                attempt, left = other, []
                break
            if other.is_proof:
                verdict = Verdict.IMPOSSIBLE
                break
        failed |= {demand.vm: (demand, verdict) for demand in left}
    return Placed(initial, attempt.hosts, attempt.fits, failed)


def _hopeless(
    greedy: GreedyPlacer, hosts: Sequence[HostState], demands: Sequence[Demand], left: Sequence[Demand]
) -> set[str]:
    """Name the VMs that have no place even where only those that are like them, or nobody, must have one."""
    found: set[str] = set()
    for shape in dict.fromkeys(demand.shape for demand in left):
        alike = [demand for demand in demands if demand.shape == shape]
        alone = {demand.vm for demand in greedy.place(hosts, alike).left}
        unplaced = [demand.vm for demand in left if demand.shape == shape]
        found.update(unplaced[: len(alone)])
    return found
