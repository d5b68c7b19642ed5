"""The fewest moves of running VMs after which every VM of a plan gets a place: an idea for FIX.

`apply` carries none of it out. The VMs that may move and how are in `movables`, the order in `move_order`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import combinations, islice
from math import comb

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.estate.named import meant_at
from vgpu_cfg.planning.estate.ownership import as_named, assess_ownership
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.moves.movables import (
    Movable,
    Movables,
    MoveStep,
    Stay,
    find_uncertain_starts,
    find_unknown_placements,
)
from vgpu_cfg.planning.moves.places import settle
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Placed, Placer
from vgpu_cfg.planning.placement.start_queues import Start
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable
from vgpu_cfg.planning.vms.lookup.baseline import demands_of, make_baseline, starting_of
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver

MOST_MOVES = 3
MOST_TRIALS = 500
"""How many sets of so many moves are tried the greedy way, so that the search ends on any estate."""
MOST_SOLVED = 50
"""How many of them are tried with the solver where the greedy way finds nothing."""


class MoveMethod(StrEnum):
    """How a VM gets to another host."""

    VMOTION = "vMotion"
    COLD = "cold"


class RebalanceResult(StrEnum):
    """The result of the search."""

    FITS = "fits"
    """Every VM has a place as things are."""
    MOVES = "moves"
    """The moves make room, and fewer were not found to."""
    NONE = "none"
    """No set of so many moves makes room."""
    LIMIT = "limit"
    """The search gave up before it had tried all."""


@dataclass(frozen=True, slots=True)
class Move:
    """A running VM that goes to another host. `why_cold` says what forbids vMotion.

    `stun_ms` is how long vMotion would stop it at the slowest bandwidth that the host names an
    estimate for, all its vGPUs together; None where that is unknown.
    """

    vm: str
    moid: str
    source: str
    target: str
    how: MoveMethod
    profiles: tuple[str, ...]
    why_cold: str = ""
    stun_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Rebalance:
    """The proposal. `unplaced` are the plan's VMs without a place at present, `trials` the attempts.

    `moves` are in the order in which they can be made. With `doubts` all fit, and ESXi could choose GPUs such
    that one does not start. `stays` are VMs in question that cannot be moved.
    """

    outcome: RebalanceResult
    unplaced: tuple[str, ...] = ()
    moves: tuple[Move, ...] = ()
    trials: int = 0
    errors: tuple[Diagnostic, ...] = ()
    uncertain_starts: tuple[str, ...] = ()
    stays: tuple[Stay, ...] = ()


def plan_rebalance(
    desired: DesiredPlan,
    observed: Inventory,
    catalog: Catalog,
    options: PlanOptions,
    *,
    most: int = MOST_TRIALS,
) -> Rebalance:
    """Look for the fewest moves: one, then two, then three; those by vMotion alone first.

    At most `most` sets of so many moves are tried. Hosts count in their present state; the plan's changes to
    them have not happened.
    """
    observed = as_named(desired, observed)
    return _Rebalancing(desired, observed, catalog, meant_at(options, desired, observed), most).run()


@dataclass(slots=True)
class _Rebalancing:
    desired: DesiredPlan
    observed: Inventory
    catalog: Catalog
    options: PlanOptions
    most: int
    findings: Findings = field(init=False)
    resolver: VmResolver = field(init=False)
    resolved_vms: list[ResolvedVm] = field(default_factory=list)
    trials: int = 0

    def __post_init__(self) -> None:
        self.findings = Findings.for_plan(self.desired)
        self.resolver = VmResolver(self.desired, self.observed, self.catalog, self.findings)

    def run(self) -> Rebalance:
        self.resolved_vms = list(self._resolved())
        as_is = self._place(())
        unplaced = tuple(as_is.failed)
        errors = tuple(found for found in self.findings.diagnostics() if found.severity == "error")
        if not unplaced:
            return Rebalance(RebalanceResult.FITS, errors=errors)
        finder = self._finder()
        wanted = {
            index for resolved in self.resolved_vms if resolved.shape for index, _ in resolved.shape.hosts
        }
        movables = finder.surroundings(wanted, self._tight(wanted, as_is.initial))
        outcome, moves, doubts = self._search(movables)
        return Rebalance(outcome, unplaced, moves, self.trials, errors, doubts, tuple(finder.stays))

    def _resolved(self) -> Iterator[ResolvedVm]:
        """Yield the plan's VMs with what each needs, as planning does."""
        folders = self.resolver.folders()
        owned = assess_ownership(self.desired, self.observed, folders, self.findings)
        for resolved in self.resolver.resolved_vms(folders, owned):
            if self.options.selects(resolved.name):
                self.resolver.shape(resolved)
                yield resolved

    def _finder(self) -> Movables:
        changing = {
            resolved.existing.moid
            for resolved in self.resolved_vms
            if resolved.existing and not resolved.stays_put
        }
        resolver = self.resolver
        return Movables(self.observed, resolver.hosts, resolver.reader, Protection.of(self.desired), changing)

    def _tight(self, wanted: set[int], states: Sequence[HostState]) -> set[int]:
        """Return the hosts where memory alone could keep a VM of the plan away."""
        total = sum(resolved.shape.memory_mib for resolved in self.resolved_vms if resolved.shape)
        return {index for index in wanted if states[index].free_mib < total}

    def _search(
        self, movables: Sequence[Movable]
    ) -> tuple[RebalanceResult, tuple[Move, ...], tuple[str, ...]]:
        """Try the sets of one, two and three moves; of as many moves one without doubts comes first."""
        for count in range(1, MOST_MOVES + 1):
            doubtful: tuple[tuple[Move, ...], tuple[str, ...]] | None = None
            for placers, most in ((PLACERS[:1], self.most), (PLACERS, min(MOST_SOLVED, self.most))):
                for chosen in islice(_choices(movables, count), most):
                    self.trials += 1
                    found = self._try(chosen, placers)
                    if found is not None and not found[1]:
                        return RebalanceResult.MOVES, *found
                    doubtful = doubtful or found
            if doubtful is not None:
                return RebalanceResult.MOVES, *doubtful
        sets = sum(comb(len(movables), count) for count in range(1, MOST_MOVES + 1))
        return RebalanceResult.NONE if sets <= MOST_SOLVED else RebalanceResult.LIMIT, (), ()

    def _try(
        self, chosen: Sequence[Movable], placers: Sequence[Placer]
    ) -> tuple[tuple[Move, ...], tuple[str, ...]] | None:
        """Return the moves of these VMs with the doubts about them, None where they do not make room."""
        hosts = self.resolver.hosts
        found = settle(chosen, hosts, self.observed, lambda kept: self._place(kept, placers))
        if found.barred or found.placed.failed:
            return None
        by_moid = {one.vm.moid: one for one in chosen}
        doubts = tuple(self._uncertain_starts(found.steps, chosen, found.placed))
        return tuple(self._move(step, by_moid[step.vm]) for step in found.steps), doubts

    def _uncertain_starts(
        self, steps: Sequence[MoveStep], moved: Sequence[Movable], placed: Placed
    ) -> Iterator[str]:
        leaving = [one.vm for one in moved]
        now = make_baseline(
            self.resolver.hosts, self.observed, (), leaving, self.resolver.reader, self.findings
        ).states
        starts: dict[int, list[Start]] = {}
        for resolved in self.resolved_vms:
            fit = placed.fits.get(resolved.name)
            if fit is not None and fit.variant and resolved.desired.power is DesiredPower.ON:
                starts.setdefault(fit.host, []).append(Start(resolved.name, fit.variant))
        yield from find_uncertain_starts(steps, now, placed.initial, starts)
        used = {step.target for step in steps} | starts.keys()
        yield from find_unknown_placements(moved, [state for state in now if state.index in used])

    def _place(self, moved: Sequence[Movable], placers: Sequence[Placer] = PLACERS) -> Placed:
        """Place the plan's VMs with these VMs gone from where they are, and in need of another host."""
        leaving = [one.vm for one in moved]
        resolver = self.resolver
        baseline = make_baseline(
            resolver.hosts, self.observed, self.resolved_vms, leaving, resolver.reader, self.findings
        )
        demands = [*demands_of(self.resolved_vms), *(one.demand for one in moved)]
        starting = starting_of(self.resolved_vms) | {one.vm.moid for one in moved}
        return place_startable(baseline.states, demands, placers, starting)

    def _move(self, step: MoveStep, one: Movable) -> Move:
        return Move(
            vm=one.vm.name,
            moid=one.vm.moid,
            source=one.host.name,
            target=self.resolver.hosts[step.target].name,
            how=MoveMethod.COLD if step.why_cold else MoveMethod.VMOTION,
            profiles=tuple(vgpu.profile for vgpu in one.vm.detail.vgpus) if one.vm.detail else (),
            why_cold=step.why_cold,
            stun_ms=None if step.why_cold else one.stun_ms,
        )


def _choices(movables: Sequence[Movable], count: int) -> Iterator[tuple[Movable, ...]]:
    """Yield the sets of so many VMs, those that vMotion alone moves before all others."""
    by_vmotion = [one for one in movables if not one.why_cold]
    yield from combinations(by_vmotion, count)
    for chosen in combinations(movables, count):
        if any(one.why_cold for one in chosen):
            yield chosen
