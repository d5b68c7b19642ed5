"""The hosts of lines that may use only a limited number of them (`place.max_hosts`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.greedy import place_greedily
from vgpu_cfg.planning.placement.host_state import HostState

_MOST_TRIES = 40
_MOST_COPIES = 10_000


def on_few_hosts(hosts: Sequence[HostState], demands: Sequence[Demand]) -> list[Demand]:
    """Return the demands with no more hosts to go to than their lines may use.

    The hosts of a line's existing VMs come first, then those of the first cluster, then those with the most
    capacity. Of a bounded number of sets, the first is taken with which the greedy way places most VMs.
    """
    found = list(demands)
    lines: dict[str, list[int]] = {}
    for number, demand in enumerate(demands):
        if demand.shape.max_hosts and not demand.stays:
            lines.setdefault(demand.line, []).append(number)
    for line, numbers in lines.items():
        best: tuple[int, list[Demand]] | None = None
        for chosen in islice(_sets(hosts, demands, line, demands[numbers[0]]), _MOST_TRIES):
            trial = list(found)
            for number in numbers:
                shape = demands[number].shape
                kept = tuple(pair for pair in shape.hosts if pair[0] in chosen)
                others = [hosts[index].host.name for index, _ in shape.hosts if index not in chosen]
                why = f"`max_hosts` limits these VMs to {counted(shape.max_hosts, 'host')}"
                unfit = (*shape.unfit, *((name, why) for name in others))
                trial[number] = replace(demands[number], shape=replace(shape, hosts=kept, unfit=unfit))
            left = len(place_greedily(hosts, trial).left)
            if best is None or left < best[0]:
                best = left, trial
            if not left:
                break
        found = best[1] if best is not None else found
    return found


def _sets(
    hosts: Sequence[HostState], demands: Sequence[Demand], line: str, demand: Demand
) -> Iterator[set[int]]:
    """Yield the sets of hosts that a line could use, in the order in which they are tried."""
    staying = {one.shape.hosts[0][0] for one in demands if one.line == line and one.stays and one.shape.hosts}
    used = staying | {host.index for host in hosts if host.residents.get(line)}
    shape = demand.shape
    room = {index: _capacity(hosts[index], demand) for index, _ in shape.hosts}
    free = [pair for pair in shape.hosts if pair[0] not in used and room[pair[0]]]
    free.sort(key=lambda pair: (pair[1], hosts[pair[0]].cost, -room[pair[0]], pair[0]))
    more = min(max(0, shape.max_hosts - len(used)), len(free))
    for chosen in combinations([index for index, _ in free], more):
        yield used.union(chosen)


def _capacity(host: HostState, demand: Demand) -> int:
    """Count how many VMs like this one a host could take."""
    trial, count = host.copy(), 0
    while count < _MOST_COPIES and (fit := trial.fit(demand.shape)) is not None:
        trial.commit(replace(demand, vm=f"{count}"), fit)
        count += 1
    return count
