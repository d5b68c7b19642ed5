"""The hosts prepared for the VMs, and how: decided together with the placement of the VMs.

Only numbers are tried here, on the hosts as the plan file alone would have them and as they could be
prepared. Ways that disturb nothing come first: only if that leaves VMs without a place is a host prepared,
then in the way that disturbs the least, for no more VMs than come to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.model.desired import asks_rdma
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.hosts.alternatives import Alternative, Alternatives
from vgpu_cfg.planning.hosts.derive import Preparation
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.line_limits import made_alike, on_few_hosts
from vgpu_cfg.planning.placement.place import Placed, place, place_greedily
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable
from vgpu_cfg.planning.vms.lookup.baseline import Baseline, StateReader, demands_of, starting_of
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

_MOST_DROPS = 8
"""How many prepared hosts are tried without, or prepared with less."""
_MOST_NARROWINGS = 3

Chosen = Mapping[str, Alternative]
"""Hosts, by moid, each with its prepared state; the others stay unchanged."""


@dataclass(slots=True)
class Chooser:
    """Chooses among the alternatives of hosts, for VMs, from the baseline of the hosts as stated.

    `unclear` is why new VMs have no place: the sharing of a host's GPUs is not stated.
    """

    alternatives: Alternatives
    observed: Inventory
    catalog: Catalog
    baseline: Baseline
    resolved_vms: Sequence[ResolvedVm]
    reader: StateReader
    unclear: tuple[Diagnostic, ...] = field(init=False, default=())
    _demands: list[Demand] = field(init=False)
    _index: dict[str, int] = field(init=False)
    _states: dict[int, tuple[Alternative, HostState]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._demands = demands_of(self.resolved_vms)
        self._index = {host.moid: index for index, host in enumerate(self.baseline.hosts)}

    def choose(self, placed: Placed) -> Chosen:
        """Return the prepared states of hosts; `placed` are the VMs on the hosts as stated."""
        chosen: Chosen = {}
        if placed.failed:
            chosen, placed = self._for_places(placed)
            new = {resolved.name for resolved in self.resolved_vms if resolved.existing is None}
            self.unclear = self.alternatives.unclear.diagnostics() if new & placed.failed.keys() else ()
        return self._with_used(self._with_rdma(chosen, placed), placed)

    def _for_places(self, placed: Placed) -> tuple[Chosen, Placed]:
        """Prepare hosts so that the fewest VMs lack a place, in the way that disturbs the least."""
        options = self.alternatives.all()
        chosen, best = self._cheapest(options, placed)
        if not chosen:
            return {}, placed
        chosen = self._without_needless(chosen, options, best)
        return self._narrowed(chosen, self._place(chosen))

    def _cheapest(
        self, options: Mapping[str, Sequence[Alternative]], placed: Placed
    ) -> tuple[Chosen, Placed]:
        chosen: Chosen = {}
        best = placed
        trial: Chosen = {}
        for cost in sorted({one.cost for ways in options.values() for one in ways}):
            before, trial = trial, _richest(options, cost)
            if trial == before:
                continue
            found = self._place(trial)
            if found.failed:
                trial, found = self._with_fewer_handed_out(trial, found, options)
            if len(found.failed) < len(best.failed):
                chosen, best = trial, found
            if not best.failed:
                break
        return chosen, best

    def _with_fewer_handed_out(
        self, trial: Chosen, found: Placed, options: Mapping[str, Sequence[Alternative]]
    ) -> tuple[Chosen, Placed]:
        """Hand out the VMs' addressed devices on fewer hosts, if that leaves room for more VMs."""
        pinned = self._hosts_of(found, lambda demand: bool(demand.shape.fixed)) & trial.keys()
        handing = {moid for moid, one in trial.items() if Preparation.PASSTHROUGH in one.preparation}
        without = [handing - pinned, *({moid} for moid in sorted(handing & pinned)[:_MOST_DROPS])]
        trials = [_without_passthrough(trial, moids, options) for moids in without if moids]
        if not trials:
            return trial, found
        other = min(trials, key=lambda one: len(self._left(one)))
        placed = self._place(other)
        return (other, placed) if len(placed.failed) < len(found.failed) else (trial, found)

    def _without_needless(
        self, chosen: Chosen, options: Mapping[str, Sequence[Alternative]], best: Placed
    ) -> Chosen:
        """Prepare hosts for less where as many VMs have a place then, the dearest first.

        Of hosts that could be prepared alike the one with the fewest VMs is tried first: if it is needed,
        the others are.
        """
        kept, tries, most = dict(chosen), _MOST_DROPS, len(best.failed)
        for cost in sorted({one.cost for ways in options.values() for one in ways}, reverse=True):
            names = self._names(best)
            dear = sorted(
                (moid for moid, one in kept.items() if one.cost == cost),
                key=lambda moid: (len(names.get(moid, ())), -self._index[moid]),
            )
            needed: set[tuple[tuple[Preparation, int], ...]] = set()
            for moid in dear:
                kind = tuple((one.preparation, one.cost) for one in options[moid])
                less = {key: one for key, one in kept.items() if key != moid}
                less |= _richest({moid: options[moid]}, cost - 1)
                if moid in names and kind not in needed:
                    tries -= 1
                    if tries < 0 or len(self._left(less)) > most:
                        needed.add(kind)
                if moid not in names or kind not in needed:
                    kept = less
            best = self._place(kept) if dear else best
        used = self._hosts_of(best)
        return {moid: one for moid, one in kept.items() if moid in used}

    def _narrowed(self, chosen: Chosen, best: Placed) -> tuple[Chosen, Placed]:
        """Prepare hosts for those VMs alone that come to them; as before where that costs one its place."""
        for _ in range(_MOST_NARROWINGS):
            names = self._names(best)
            narrow = {
                moid: found
                for moid, one in chosen.items()
                if (found := self.alternatives.of(moid, one.preparation, names.get(moid, ()))) is not None
            }
            placed = self._place_as_planned(narrow)
            if len(placed.failed) > len(best.failed):
                break
            used = self._hosts_of(placed)
            chosen, best = {moid: one for moid, one in narrow.items() if moid in used}, placed
            if len(chosen) == len(narrow):
                break
        return chosen, best

    def _with_rdma(self, chosen: Chosen, placed: Placed) -> Chosen:
        """Add the hosts that fit the VMs, and that the RDMA of new ones among them needs more of."""
        new = {
            resolved.name
            for resolved in self.resolved_vms
            if resolved.existing is None and asks_rdma(resolved.desired)
        }
        names = self._names(placed) if new else {}
        more: dict[str, Alternative] = {}
        for moid in self.alternatives.resolved_hosts:
            coming = new & names.get(moid, set()) if moid not in chosen else set()
            found = self.alternatives.of(moid, Preparation.RDMA, coming) if coming else None
            # What cannot be carried out fixes nothing, and would be one complaint more.
            if found is not None and not found.is_refused:
                more[moid] = found
        if more and len(self._place_as_planned({**chosen, **more}).failed) > len(placed.failed):
            return chosen
        return {**chosen, **more}

    def _with_used(self, chosen: Chosen, placed: Placed) -> Chosen:
        """Add, if hosts are prepared, those that fit their VMs: they are reported as in sync."""
        if all(one.is_so for one in chosen.values()):
            return chosen
        names = self._names(placed)
        more = {
            moid: found
            for moid in self.alternatives.resolved_hosts
            if moid in names and moid not in chosen
            if (found := self.alternatives.of(moid, Preparation.ALL, names[moid])) is not None and found.is_so
        }
        return {**chosen, **more}

    def _names(self, placed: Placed) -> dict[str, set[str]]:
        """Name the plan's VMs on each host: those placed there, and those that stay."""
        found: dict[str, set[str]] = {}
        for resolved in self.resolved_vms:
            fit = placed.fits.get(resolved.name)
            if fit is not None:
                found.setdefault(self.baseline.hosts[fit.host].moid, set()).add(resolved.name)
            elif resolved.existing is not None and resolved.host is not None:
                found.setdefault(resolved.host.moid, set()).add(resolved.name)
        return found

    def _hosts_of(self, placed: Placed, counts: Callable[[Demand], bool] = lambda _demand: True) -> set[str]:
        """Return the hosts (moids) to which VMs come that count."""
        fits = (placed.fits.get(demand.vm) for demand in self._demands if counts(demand))
        return {self.baseline.hosts[fit.host].moid for fit in fits if fit is not None}

    def _left(self, chosen: Chosen) -> Sequence[Demand]:
        """List who gets no place in the fast way."""
        return place_greedily(self._hosts(chosen), self._demands).left

    def _place(self, chosen: Chosen) -> Placed:
        return place(self._hosts(chosen), self._demands, PLACERS)

    def _place_as_planned(self, chosen: Chosen) -> Placed:
        """Place as the plan will: on hosts that are prepared, whatever that took."""
        hosts = self._hosts(chosen)
        for host in hosts:
            host.cost = 0
        demands = made_alike(hosts, on_few_hosts(hosts, self._demands))
        return place_startable(hosts, demands, PLACERS, starting_of(self.resolved_vms))

    def _hosts(self, chosen: Chosen) -> list[HostState]:
        hosts = list(self.baseline.states)
        for moid, one in chosen.items():
            if not one.is_so:
                hosts[self._index[moid]] = self._state(moid, one)
        return hosts

    def _state(self, moid: str, one: Alternative) -> HostState:
        """Return a host prepared in one way, with what that costs."""
        if id(one) not in self._states:
            # A reader keeps the topology of a host as it was first asked about it: this one is another.
            reader = CapacityReader(self.observed, self.catalog)
            state, _ = self.reader.read(self._index[moid], one.host, reader)
            state.cost = one.cost
            self._states[id(one)] = one, state
        return self._states[id(one)][1].copy()


def _richest(options: Mapping[str, Sequence[Alternative]], most: int) -> dict[str, Alternative]:
    """Return of each host the alternative that brings most, among those that cost no more than `most`."""
    found = {moid: [one for one in ways if one.cost <= most] for moid, ways in options.items()}
    return {moid: max(ways, key=lambda one: len(one.preparation)) for moid, ways in found.items() if ways}


def _without_passthrough(
    chosen: Chosen, moids: Collection[str], options: Mapping[str, Sequence[Alternative]]
) -> Chosen:
    """Hand out nothing by address on some hosts; those that nothing else is done for stay as they are."""
    kept = {moid: one for moid, one in chosen.items() if moid not in moids}
    for moid in moids:
        wanted = chosen[moid].preparation & ~Preparation.PASSTHROUGH
        kept.update((moid, one) for one in options[moid] if one.preparation == wanted)
    return kept
