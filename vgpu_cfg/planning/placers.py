"""The ways to place VMs, in the order in which they are tried."""

from __future__ import annotations

from vgpu_cfg.planning.greedy import GreedyPlacer
from vgpu_cfg.planning.solver import SolverPlacer

PLACERS = (GreedyPlacer(), SolverPlacer())
