"""The ways to place VMs, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.greedy import GreedyPlacer
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Attempt


class _Solver:
    """The solver, loaded where the greedy way has left VMs without a place."""

    def place(self, hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
        from vgpu_cfg.planning.placement.solver import SolverPlacer

        return SolverPlacer().place(hosts, demands)


PLACERS = (GreedyPlacer(), _Solver())
