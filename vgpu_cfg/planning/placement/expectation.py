"""Which GPU of its host each VM can be expected to get, since not the plan but ESXi chooses."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.place import Placed, in_order
from vgpu_cfg.planning.placement.power_order import Start, simulate_starts


def expect_gpus(placed: Placed, demands: Sequence[Demand]) -> Placed:
    """Let the fits name the GPUs that the host's policy would choose, where all VMs start under it.

    That is what the NUMA affinity is first set to: the better the guess, the fewer VMs have to be
    pinned anew. Where the policy would strand a VM, the fits stay as the placement made them.
    """
    by_host: dict[int, list[Demand]] = {}
    for demand in demands:
        if (fit := placed.fits.get(demand.vm)) is not None:
            by_host.setdefault(fit.host, []).append(demand)
    for index, group in by_host.items():
        starts = [
            Start(demand.vm, fit.variant) for demand in group if (fit := placed.fits[demand.vm]).variant
        ]
        given, stranded = simulate_starts(placed.initial[index], starts)
        # Of a device group ESXi takes a whole set of peers, which the policy's rule does not know.
        has_groups = any(placed.fits[demand.vm].groups for demand in group)
        if starts and stranded is None and not has_groups:
            _follow(placed, index, group, given)
    return placed


def _follow(placed: Placed, index: int, group: Sequence[Demand], given: dict[str, tuple[int, ...]]) -> None:
    """Put the host's VMs on it again, each on the GPUs that it is expected to get."""
    host: HostState = placed.initial[index].copy()
    fits: dict[str, Fit] = {}
    for demand in in_order(group):
        before = placed.fits[demand.vm]
        gpus = given.get(demand.vm, before.gpus)
        fit = host.rated(demand.shape, before.variant, gpus, before.slots)
        if fit is None or not host.keeps_apart(fit, demand.shape):
            return
        if fit.numa_level == 2 and before.numa_level < 2:
            return
        host.commit(demand, fit)
        fits[demand.vm] = fit
    placed.fits |= fits
    placed.hosts[index] = host
