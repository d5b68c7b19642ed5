"""Placement of lines whose VMs must agree: on one profile for GPU memory, or on a limited number of hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import combinations, islice

from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import place_greedily

_MOST_TRIES = 40


def made_alike(hosts: Sequence[HostState], demands: Sequence[Demand]) -> list[Demand]:
    """Return the demands with one variant for each line of `alike`; those of another line stay as they are.

    It is the first with which the greedy way places the whole line, and no fewer VMs of other lines than
    without. A variant's order is that of a place's score: disturbance, the cluster, then the plan file's.
    """
    found = list(demands)
    lines: dict[tuple[str, tuple[Variant, ...]], list[int]] = {}
    for number, demand in enumerate(demands):
        if demand.alike and not demand.stays and len(demand.shape.variants) > 1:
            lines.setdefault((demand.alike, demand.shape.variants), []).append(number)
    left: Collection[str] | None = None
    for (_, variants), numbers in lines.items():
        if len(numbers) == 1:
            continue
        if left is None:
            left = _left(hosts, found)
        names = {demands[number].vm for number in numbers}
        shape = demands[numbers[0]].shape
        for variant in sorted(variants, key=lambda one: _preference(hosts, shape, one)):
            trial = list(found)
            for number in numbers:
                only = replace(demands[number].shape, variants=(variant,))
                trial[number] = replace(demands[number], shape=only)
            failing = _left(hosts, trial)
            if not names & failing and len(failing) <= len(left):
                found, left = trial, failing
                break
    return found


def _left(hosts: Sequence[HostState], demands: Sequence[Demand]) -> set[str]:
    return {demand.vm for demand in place_greedily(hosts, demands).left}


def _preference(hosts: Sequence[HostState], shape: Shape, variant: Variant) -> tuple[int, int]:
    """Return the least disturbance, and then the least rank, of the hosts that could give a variant."""
    boards = {need.board_key for need in variant}
    return min(
        (
            (hosts[index].cost, rank)
            for index, rank in shape.hosts
            if any(gpu.board_key in boards for gpu in hosts[index].gpus)
            and hosts[index].refuse_variant(variant) is None
        ),
        default=(1_000_000, 0),
    )


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
