"""Mixed-integer programs for HiGHS: built up row by row, and solved the same way every time.

One thread, a fixed seed and a limit of nodes instead of a clock. HiGHS is loaded only here and only
when something is to be solved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

INFINITY = float("inf")


class SolverStatus(Enum):
    """The solver's result: the optimum, some solution, the proof of none, or nothing."""

    BEST = "best"
    FOUND = "found"
    NONE = "none"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Solution:
    """The values of the variables in their order; `bound` is what no solution's cost goes below.

    `nodes` counts how many of the search were looked at.
    """

    outcome: SolverStatus
    values: tuple[int, ...] = ()
    bound: float = -INFINITY
    nodes: int = 0


@dataclass(slots=True)
class Program:
    """Whole-numbered variables with bounds and costs, and rows of sums; the cost is made small."""

    _lower: list[float] = field(default_factory=list)
    _upper: list[float] = field(default_factory=list)
    _costs: list[float] = field(default_factory=list)
    _row_lower: list[float] = field(default_factory=list)
    _row_upper: list[float] = field(default_factory=list)
    _starts: list[int] = field(default_factory=lambda: [0])
    _columns: list[int] = field(default_factory=list)
    _weights: list[float] = field(default_factory=list)

    @property
    def size(self) -> int:
        """How many variables there are."""
        return len(self._costs)

    def variable(self, most: float, *, cost: float = 0) -> int:
        """Add a variable from 0 to `most`, and return its number."""
        self._lower.append(0)
        self._upper.append(most)
        self._costs.append(cost)
        return len(self._costs) - 1

    def row(
        self, terms: Iterable[tuple[int, float]], *, least: float = -INFINITY, most: float = INFINITY
    ) -> None:
        """Require that a sum of (variable, weight) lies between two bounds; a variable may be repeated.

        HiGHS accepts no row that names a variable twice: with some it ends the process.
        """
        sums: dict[int, float] = {}
        for column, weight in terms:
            sums[column] = sums.get(column, 0.0) + weight
        self._columns += sums
        self._weights += sums.values()
        self._starts.append(len(self._columns))
        self._row_lower.append(least)
        self._row_upper.append(most)

    def set_costs(self, costs: Iterable[tuple[int, float]]) -> None:
        """Replace all costs; variables that are not named cost nothing."""
        self._costs = [0.0] * len(self._costs)
        for variable, cost in costs:
            self._costs[variable] = cost

    def fix(self, variable: int, value: float) -> None:
        """Let a variable have one value only."""
        self._lower[variable] = self._upper[variable] = value

    def open(self, variable: int, most: float, cost: float) -> None:
        """Let a variable be as large as `most`, at a cost."""
        self._upper[variable], self._costs[variable] = most, cost

    def solve(self, *, most_nodes: int, gap: float = 0.0, start: tuple[int, ...] = ()) -> Solution:
        """Find the solution that costs least; `gap` is the share of the cost that may be missed.

        `start` is a solution that is known already. Its feasibility jump and its restarts are left out:
        of programs as they are made here they took 40 % of the time and found nothing (decision 73).
        """
        import highspy

        solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]  # its stub has no types there
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("parallel", "off"),
            ("random_seed", 0),
            ("mip_max_nodes", most_nodes),
            ("mip_rel_gap", gap),
            ("mip_abs_gap", 1e-6),
            ("mip_heuristic_run_feasibility_jump", False),
            ("mip_allow_restart", False),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._model())
        if start:
            known = highspy.HighsSolution()
            known.col_value = [float(value) for value in start]
            solver.setSolution(known)
        solver.run()
        status, info = solver.getModelStatus(), solver.getInfo()
        kinds = highspy.HighsModelStatus
        nodes = max(0, int(info.mip_node_count))
        if status in (kinds.kInfeasible, kinds.kUnboundedOrInfeasible):
            return Solution(SolverStatus.NONE, nodes=nodes)
        has_values = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        if not has_values:
            return Solution(SolverStatus.UNKNOWN, bound=info.mip_dual_bound, nodes=nodes)
        values = tuple(round(value) for value in solver.getSolution().col_value)
        outcome = SolverStatus.BEST if status == kinds.kOptimal else SolverStatus.FOUND
        return Solution(outcome, values, info.mip_dual_bound, nodes)

    def _model(self) -> Any:
        import highspy
        import numpy as np

        model = highspy.HighsLp()
        model.num_col_, model.num_row_ = len(self._costs), len(self._row_lower)
        model.col_cost_ = np.array(self._costs, dtype=np.double)
        model.col_lower_ = np.array(self._lower, dtype=np.double)
        model.col_upper_ = np.array(self._upper, dtype=np.double)
        model.row_lower_ = np.array(self._row_lower, dtype=np.double)
        model.row_upper_ = np.array(self._row_upper, dtype=np.double)
        model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        model.a_matrix_.start_ = np.array(self._starts, dtype=np.int32)
        model.a_matrix_.index_ = np.array(self._columns, dtype=np.int32)
        model.a_matrix_.value_ = np.array(self._weights, dtype=np.double)
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(self._costs)
        return model
