"""The ways to place VMs, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.greedy import place_greedily
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Attempt


def _solve(hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
    """Load the solver only if the greedy way has left VMs without a place."""
    from vgpu_cfg.planning.placement.solver import place_by_program

    return place_by_program(hosts, demands)


PLACERS = (place_greedily, _solve)
