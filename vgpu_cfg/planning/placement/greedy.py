"""Places the hardest VMs first, each on the host where it leaves the most."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import ShapeFits, SharedFits
from vgpu_cfg.planning.placement.place import Attempt, KeptFree, in_order, kept_free


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
