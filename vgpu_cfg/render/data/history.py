"""Runs of the past as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from vgpu_cfg.render.data.format import FORMAT
from vgpu_cfg.render.views.run.past_runs import RunRow
from vgpu_cfg.render.views.run.run_steps import StepDone


def history_data(rows: Sequence[RunRow], server: str, notes: Sequence[str]) -> dict[str, Any]:
    """Return runs, the newest first, and what was not read."""
    return {
        "kind": "history",
        "format": FORMAT,
        "server": server or None,
        "runs": [_run(row) for row in rows],
        "notes": list(notes),
    }


def run_data(
    row: RunRow, steps: Sequence[StepDone] | None, server: str, notes: Sequence[str], *, journal: str
) -> dict[str, Any]:
    """Return one run with its steps; they are null where no journal of it is within reach."""
    return {
        "kind": "history-run",
        "format": FORMAT,
        "server": server or None,
        "run": _run(row),
        "steps": None if steps is None else [asdict(step) for step in steps],
        "journal": journal or None,
        "notes": list(notes),
    }


def _run(row: RunRow) -> dict[str, Any]:
    return asdict(row) | {
        "began_at": _moment(row.began_at),
        "ended_at": _moment(row.ended_at),
        "result": row.result or None,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()
