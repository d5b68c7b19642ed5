"""The GPU of its host that each VM can be expected to get, since not the plan but ESXi chooses.

If these GPUs crowd the VMs of a host on one NUMA node, VMs move to hosts where they do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import ShapeFits, SharedFits
from vgpu_cfg.planning.placement.place import FIGURES, Placed, in_order, may_use, score
from vgpu_cfg.planning.placement.start_queues import Start, StartOrder, order_starts, simulate_starts

_MOST_LOOKS = 3_000
"""So many hosts are tried for crowded VMs."""
_AFTER_NUMA = FIGURES.index("numa") + 1
_KEPT = (FIGURES.index("far_nics"), FIGURES.index("mixed"))
"""The figures of a score that a move must not make worse."""

_Expected = tuple[HostState, dict[str, Fit]]


def expect_gpus(placed: Placed, demands: Sequence[Demand]) -> Placed:
    """Let the fits name the GPUs that the host's policy would choose, if all VMs start under it.

    The NUMA affinity is first set to these: the better the guess, the fewer VMs have to be pinned anew. If
    the policy would strand a VM, the fits stay as the placement made them.
    """
    crowds = _Crowds(placed)
    for demand in demands:
        if (fit := placed.fits.get(demand.vm)) is not None:
            crowds.groups.setdefault(fit.host, []).append(demand)
    for index, group in crowds.groups.items():
        crowds.keep(index, _expected(placed.initial[index], group, placed.fits))
    if any(fit.numa_level for fit in placed.fits.values()):
        crowds.relieve()
    return placed


def _expected(initial: HostState, group: Sequence[Demand], fits: dict[str, Fit]) -> _Expected | None:
    """Return the host with its VMs on the GPUs that they are expected to get, None if that is unknown."""
    starts = [Start(one.vm, fits[one.vm].variant) for one in group if fits[one.vm].variant]
    given, stranded = simulate_starts(initial, starts)
    # Of a device group ESXi takes a whole set of peers, which the policy's rule does not know.
    if not starts or stranded is not None or any(fits[demand.vm].groups for demand in group):
        return None
    host, found = initial.copy(), dict[str, Fit]()
    for demand in in_order(group):
        before = fits[demand.vm]
        gpus = given.get(demand.vm, before.gpus)
        fit = host.rated(demand.shape, before.variant, gpus, before.slots)
        if fit is None or not host.keeps_apart(fit, demand.shape):
            return None
        if fit.numa_level == 2 and before.numa_level < 2:
            return None
        host.commit(demand, fit)
        found[demand.vm] = fit
    return host, found


@dataclass(slots=True)
class _Crowds:
    """The VMs of each host, while crowded ones move to other hosts."""

    placed: Placed
    groups: dict[int, list[Demand]] = field(default_factory=dict)
    _looks: int = _MOST_LOOKS
    _fits: dict[Shape, ShapeFits] = field(default_factory=dict)
    _in_vain: set[tuple[Shape, int]] = field(default_factory=set)

    def keep(self, index: int, expected: _Expected | None) -> None:
        """Record a host's expected GPUs."""
        if expected is not None:
            self.placed.hosts[index] = expected[0]
            self.placed.fits |= expected[1]

    def relieve(self) -> None:
        """Move crowded VMs, the easiest first, to hosts where their start crowds no VM."""
        shared = SharedFits(self.placed.hosts)
        for index in sorted(self.groups):
            while any(self._move(shared, index, demand) for demand in self._crowded(index)):
                pass  # the others of the host are expected on other GPUs now

    def _crowded(self, index: int) -> list[Demand]:
        """List the VMs of a host that could move and whose NUMA node is promised to others."""
        return [
            demand
            for demand in reversed(in_order(self.groups[index]))
            if (fit := self.placed.fits[demand.vm]).numa_level and fit.variant and not demand.stays
        ]

    def _move(self, shared: SharedFits, index: int, demand: Demand) -> bool:
        """Move a VM to another host, and return whether that succeeded."""
        placed, shape, fit = self.placed, demand.shape, self.placed.fits[demand.vm]
        rest = [one for one in self.groups[index] if one is not demand]
        without = _expected(placed.initial[index], rest, placed.fits) or (placed.initial[index].copy(), {})
        if len(without[1]) < len(rest):
            return False
        ranks = dict(shape.hosts)
        now = score(fit, ranks[index], without[0], shape)
        fits, choices = self._fits.setdefault(shape, shared.of(shape)), []
        for other, rank in shape.hosts:
            is_known = (shape, shared.kinds[other]) in self._in_vain
            if other == index or is_known or not may_use(shape, other, placed.hosts, placed.kept):
                continue
            if (found := fits.on(other)) is not None:
                points = score(found, rank, placed.hosts[other], shape)
                is_kept = all(points[at] <= now[at] for at in _KEPT)
                if is_kept and points[:_AFTER_NUMA] < now[:_AFTER_NUMA]:
                    choices.append((points[:-1], not placed.hosts[other].is_in_use, other, found))
        for *_, other, found in sorted(choices, key=lambda one: one[:3]):
            if (shape, shared.kinds[other]) in self._in_vain or self._looks <= 0:
                continue
            self._looks -= 1
            group = [*self.groups.get(other, ()), demand]
            expected = _expected(placed.initial[other], group, placed.fits | {demand.vm: found})
            if expected is None or not self._is_better(other, demand, expected[1], group):
                self._in_vain.add((shape, shared.kinds[other]))
                continue
            self.groups[index], self.groups[other] = rest, group
            for changed, new in ((index, without), (other, expected)):
                self.keep(changed, new)
                shared.kinds[changed] = shared.number(placed.hosts[changed].signature())
            return True
        return False

    def _is_better(self, index: int, demand: Demand, fits: dict[str, Fit], group: Sequence[Demand]) -> bool:
        """Whether a VM crowds no other there, and all of the host's VMs start in an order that is certain."""
        others = sum(self.placed.fits[vm].numa_level for vm in fits if vm != demand.vm)
        if _levels(fits.values()) > others:
            return False
        starts = [Start(one.vm, fits[one.vm].variant) for one in group if one.starts and fits[one.vm].variant]
        orders = order_starts(self.placed.initial[index], starts)
        return all(one.order is not StartOrder.UNKNOWN for one in orders)


def _levels(fits: Iterable[Fit]) -> int:
    return sum(fit.numa_level for fit in fits)
