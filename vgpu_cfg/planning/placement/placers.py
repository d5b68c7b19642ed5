"""The ways to place VMs, in the order in which they are tried."""

from __future__ import annotations

from vgpu_cfg.planning.placement.greedy import GreedyPlacer
from vgpu_cfg.planning.placement.solver import SolverPlacer

PLACERS = (GreedyPlacer(), SolverPlacer())
