"""Looks through every placement of a small estate, where the greedy way found none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.planning.demand import Demand
from vgpu_cfg.planning.host_state import Fit, HostState
from vgpu_cfg.planning.placement import Attempt, in_order


class _LimitReached(Exception):
    """The search has looked at as many placements as it may."""


@dataclass(slots=True)
class SearchPlacer:
    """Depth first, bounded by what it may look at, never by a clock.

    It proves what it does not find, but for where inside a MIG GPU an instance stands: there it
    takes vSphere's order, as the greedy way does.
    """

    most_steps: int = 4_000
    most_vms: int = 40

    def place(self, hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
        """Place all, or none."""
        order = in_order(demands)
        if len(order) > self.most_vms:
            return Attempt(list(hosts), left=order)
        run = _Run(order, self.most_steps)
        try:
            found = run.descend(list(hosts), 0, {})
        except _LimitReached:
            return Attempt(list(hosts), left=order)
        if found is None:
            return Attempt(list(hosts), left=order, is_proof=True)
        return found


@dataclass(slots=True)
class _Run:
    order: list[Demand]
    steps_left: int

    def descend(self, hosts: list[HostState], depth: int, fits: dict[str, Fit]) -> Attempt | None:
        """Place the VMs from `depth` on, None where they have no place."""
        if depth == len(self.order):
            return Attempt(hosts, fits)
        demand = self.order[depth]
        for fit in self._fits(hosts, depth, fits):
            self.steps_left -= 1
            if self.steps_left < 0:
                raise _LimitReached
            trial = list(hosts)
            trial[fit.host] = hosts[fit.host].copy()
            trial[fit.host].commit(demand, fit)
            if (found := self.descend(trial, depth + 1, fits | {demand.vm: fit})) is not None:
                return found
        return None

    def _fits(self, hosts: list[HostState], depth: int, fits: dict[str, Fit]) -> Iterator[Fit]:
        """List where a VM may go; one like the VM before it goes to no earlier host."""
        demand = self.order[depth]
        before = self.order[depth - 1] if depth else None
        lowest = 0
        if before is not None and before.shape == demand.shape and not demand.stays:
            lowest = fits[before.vm].host
        ranked = sorted(demand.shape.hosts, key=lambda host: (host[1], host[0]))
        for index, _ in ranked:
            if index >= lowest or demand.stays:
                yield from hosts[index].fits(demand.shape)
