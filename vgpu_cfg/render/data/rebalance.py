"""The JSON of a proposal of moves, told in docs/reference/json-output.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from vgpu_cfg.changes.plan import LostHost
from vgpu_cfg.planning.moves.rebalance import Rebalance
from vgpu_cfg.render.data.format import FORMAT, Data


def rebalance_data(found: Rebalance, plan: str, server: str, *, lost: Sequence[LostHost] = ()) -> Data:
    """Return the proposal."""
    return {
        "kind": "rebalance",
        "format": FORMAT,
        "plan": plan,
        "server": server,
        "outcome": str(found.outcome),
        "homeless": list(found.unplaced),
        "moves": [asdict(move) | {"how": str(move.how)} for move in found.moves],
        "doubts": list(found.uncertain_starts),
        "restarts": [asdict(one) for one in found.restarts],
        "stays": [asdict(one) for one in found.stays],
        "lost_hosts": [one.model_dump(mode="json") for one in lost],
        "trials": found.trials,
        "errors": [error.model_dump(mode="json") for error in found.errors],
    }
