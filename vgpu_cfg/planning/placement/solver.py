"""Places VMs by an integer program, where the greedy way found no place for all of them.

Like VMs and like hosts are counted, not told apart (`kinds`): the program is as large as there are kinds.
First the number of VMs without a place is made small: none is a placement, one or more a proof. Then the
counts of each kind are filled into its hosts; where that fails, some of these are counted one by one, and all
is asked anew, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.filling import Filler
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.kinds import KindProgram, Kinds, Part
from vgpu_cfg.planning.placement.milp import Solution, SolverStatus
from vgpu_cfg.planning.placement.place import Attempt, in_order


@dataclass(frozen=True, slots=True)
class SolverPlacer:
    """Finds a placement of all VMs wherever there is one, or proves that there is none, within its limits.

    The limits count nodes of the search and variables of the program, never seconds.
    """

    most_nodes: int = 2_000
    most_polish_nodes: int = 20
    most_filling_nodes: int = 100
    most_variables: int = 400_000
    most_rounds: int = 4

    def place(self, hosts: Sequence[HostState], demands: Sequence[Demand]) -> Attempt:
        """Place all, or as many as can be."""
        kinds = Kinds(hosts, demands)
        parts: Sequence[Part] = kinds.parts
        result = Attempt([host.copy() for host in hosts], hosts, left=list(in_order(demands)))
        if not kinds.is_whole:
            return result
        nodes = self.most_nodes
        for _ in range(self.most_rounds):
            made = kinds.program(parts)
            if made.program.size > self.most_variables or nodes <= 0:
                break
            found = made.program.solve(most_nodes=nodes)
            nodes -= found.nodes
            result.least_left = max(result.least_left, kinds.least_left(found.bound) if kinds.is_exact else 0)
            if found.outcome in (SolverStatus.UNKNOWN, SolverStatus.NONE):
                break
            attempt, failing = self._filled(kinds, made, found)
            if not failing:
                attempt.least_left = result.least_left
                attempt.is_proof = attempt.least_left > 0 and found.outcome is SolverStatus.BEST
                return attempt
            if all(len(part.hosts) == 1 for part in failing):
                break
            parts = [one for part in parts for one in (part.split() if part in failing else [part])]
        return result

    def _filled(self, kinds: Kinds, made: KindProgram, found: Solution) -> tuple[Attempt, list[Part]]:
        """Fill the cheapest such solution into hosts, else the first; return the parts that failed."""
        solutions = [found]
        polished = self._polished(kinds, made, found)
        if polished.values:
            solutions.insert(0, polished)
        failing: list[Part] = []
        attempt = Attempt([host.copy() for host in kinds.hosts], kinds.hosts)
        for solution in solutions:
            filler = Filler(kinds, self.most_filling_nodes, [list(group) for group in kinds.groups.values()])
            failing = [
                part
                for part, own in zip(made.parts, kinds.values(made, solution.values), strict=True)
                if kinds.has_vms(part, own) and not filler.fill(part, own)
            ]
            if not failing:
                for index, (host, fits) in filler.filled.items():
                    attempt.hosts[index] = host
                    attempt.fits |= fits
                attempt.left = [demand for group in filler.waiting for demand in group]
                break
        return attempt, failing

    def _polished(self, kinds: Kinds, made: KindProgram, found: Solution) -> Solution:
        """Look for a cheaper solution that places as many: first clusters and profiles, fewer GPUs opened."""
        for variable in made.unplaced:
            made.program.fix(variable, found.values[variable])
        made.program.set_costs(kinds.costs(made))
        return made.program.solve(most_nodes=self.most_polish_nodes, gap=0.02, start=found.values)
