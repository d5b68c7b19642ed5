"""The JSON of an estimate, told in docs/reference/json-output.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from vgpu_cfg.planning.sizing.candidates import Candidate
from vgpu_cfg.planning.sizing.standing import Model, StandingHosts
from vgpu_cfg.render.data.format import FORMAT, Data


def size_data(model: Model | None, workers: int, found: Sequence[Candidate]) -> Data:
    """Return the estimate; no model where a framebuffer was asked for."""
    return {
        "kind": "size",
        "format": FORMAT,
        "is_estimate": True,
        "workers": workers,
        "model": None if model is None else _model_data(model),
        "candidates": [asdict(one) | {"way": str(one.way)} for one in found],
    }


def room_data(found: Sequence[StandingHosts], clusters: Sequence[str], server: str) -> Data:
    """Return what hosts that are there take of the room, model by model."""
    return {
        "kind": "room",
        "format": FORMAT,
        "server": server,
        "clusters": list(clusters),
        "models": [
            asdict(one) | {"boards": dict(one.boards), "short_of_memory": dict(one.short_of_memory)}
            for one in found
        ],
    }


def _model_data(model: Model) -> Data:
    return {
        "parameters": model.parameters,
        "precision": str(model.precision),
        "optimizer": str(model.optimizer),
        "sequence": model.sequence,
        "batch": model.batch,
        "layers": model.layers,
        "hidden": model.hidden,
        "state_bytes": model.state_bytes,
        "gradient_bytes": model.gradient_bytes,
        "least_activation_bytes": model.least_activation_bytes,
        "most_activation_bytes": model.most_activation_bytes,
    }
