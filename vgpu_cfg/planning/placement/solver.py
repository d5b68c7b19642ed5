"""Place VMs by an integer program if the greedy way found no place for all of them.

Similar VMs and hosts are counted, not distinguished (`kinds`): the program is as large as there are kinds.
First the number of VMs without a place is minimized: none is a placement, one or more a proof. Then the
counts of each kind are filled into its hosts; if that fails, some of these are counted one by one, and all is
asked anew, a bounded number of times.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.filling import Filler
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.kinds import KindProgram, Kinds, Part
from vgpu_cfg.planning.placement.milp import Solution, SolverStatus
from vgpu_cfg.planning.placement.place import Attempt, in_order

_MOST_NODES, _MOST_POLISH_NODES, _MOST_FILLING_NODES = 2_000, 20, 100
_MOST_VARIABLES = 400_000
_MOST_ROUNDS = 4


def place_by_program(
    hosts: Sequence[HostState],
    demands: Sequence[Demand],
    *,
    most_variables: int = _MOST_VARIABLES,
    most_rounds: int = _MOST_ROUNDS,
) -> Attempt:
    """Find a placement of all VMs if there is one, or prove that there is none, within limits.

    The limits count nodes of the search and variables of the program, never seconds.
    """
    kinds = Kinds(hosts, demands)
    parts: Sequence[Part] = kinds.parts
    result = Attempt([host.copy() for host in hosts], hosts, left=list(in_order(demands)))
    if not kinds.is_whole:
        return result
    nodes = _MOST_NODES
    for _ in range(most_rounds):
        made = kinds.program(parts)
        if made.program.size > most_variables or nodes <= 0:
            break
        found = made.program.solve(most_nodes=nodes)
        nodes -= found.nodes
        result.least_left = max(result.least_left, kinds.least_left(found.bound) if kinds.is_exact else 0)
        if found.outcome in (SolverStatus.UNKNOWN, SolverStatus.NONE):
            break
        attempt, failing = _filled(kinds, made, found)
        if not failing:
            attempt.least_left = result.least_left
            attempt.is_proof = attempt.least_left > 0 and found.outcome is SolverStatus.BEST
            return attempt
        if all(len(part.hosts) == 1 for part in failing):
            break
        parts = [one for part in parts for one in (part.split() if part in failing else [part])]
    return result


def _filled(kinds: Kinds, made: KindProgram, found: Solution) -> tuple[Attempt, list[Part]]:
    """Fill the cheapest such solution into hosts, else the first; return the parts that failed."""
    solutions = [found]
    polished = _polished(kinds, made, found)
    if polished.values:
        solutions.insert(0, polished)
    failing: list[Part] = []
    attempt = Attempt([host.copy() for host in kinds.hosts], kinds.hosts)
    for solution in solutions:
        filler = Filler(kinds, _MOST_FILLING_NODES, [list(group) for group in kinds.groups.values()])
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


def _polished(kinds: Kinds, made: KindProgram, found: Solution) -> Solution:
    """Look for a cheaper solution that places as many: first clusters and profiles, fewer GPUs opened."""
    for variable in made.unplaced:
        made.program.fix(variable, found.values[variable])
    made.program.set_costs(kinds.costs(made))
    return made.program.solve(most_nodes=_MOST_POLISH_NODES, gap=0.02, start=found.values)
