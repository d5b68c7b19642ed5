"""One profile for all VMs of a line that ask for GPU memory, if they all have a place with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant
from vgpu_cfg.planning.placement.greedy import place_greedily
from vgpu_cfg.planning.placement.host_state import HostState


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
