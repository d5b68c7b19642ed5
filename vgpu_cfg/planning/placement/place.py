"""The host of every VM: the methods, one after the other, and their result.

Reproducible: no clock, no randomness, one order of hosts and VMs whatever the order they come in. Three
verdicts: placed, proven impossible, undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import SharedFits

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
