"""The JSON of a verification, told in docs/reference/json-output.md."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.verification import CheckState, Verification
from vgpu_cfg.render.data.format import FORMAT


def verification_data(found: Verification) -> dict[str, Any]:
    """Return the results with what was asked of them."""
    return {
        "kind": "verify",
        "format": FORMAT,
        **found.model_dump(mode="json"),
        "passes": found.passes,
        "counts": {state.value: len(found.in_state(state)) for state in CheckState},
    }
