"""The JSON of past runs, and of the locks and freezes that runs keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from vgpu_cfg.model.locks import KeptFreeze, Lock, Locks
from vgpu_cfg.render.data.format import FORMAT
from vgpu_cfg.render.views.run.run_steps import RunRow, StepDone


def history_data(rows: Sequence[RunRow], server: str, notes: Sequence[str]) -> dict[str, Any]:
    """Return runs, the newest first, and the unread places."""
    return {
        "kind": "history",
        "format": FORMAT,
        "server": server or None,
        "runs": [run_row_data(row) for row in rows],
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
        "run": run_row_data(row),
        "steps": None if steps is None else [asdict(step) for step in steps],
        "journal": journal or None,
        "notes": list(notes),
    }


def run_row_data(row: RunRow) -> dict[str, Any]:
    """Return one run."""
    return asdict(row) | {
        "began_at": _moment(row.began_at),
        "ended_at": _moment(row.ended_at),
        "result": row.result or None,
    }


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def locks_data(found: Locks) -> dict[str, Any]:
    """Return all locks, by the runs that hold them."""
    return {
        "now": found.now.isoformat(),
        "runs": [
            {
                "run": run,
                "is_silent": found.is_silent(run),
                "beat_at": found.beat_of(run).isoformat(),
                "holder": _holder(found.of_run(run)[0]),
                "locks": [lock_data(lock) for lock in found.of_run(run)],
            }
            for run in found.runs
        ],
        "freezes": [freeze_data(kept, found.now) for kept in found.freezes],
        "without_run": [lock_data(lock) for lock in found.unknown],
    }


def freeze_data(kept: KeptFreeze, now: datetime | None = None) -> dict[str, Any]:
    """Return a freeze; with the time also whether it is in force."""
    stated = kept.freeze.model_dump(mode="json") if kept.freeze is not None else None
    is_on = {"is_on": kept.is_on(now)} if now is not None else {}
    return {"alarm": kept.moid, "account": kept.account, **is_on, "freeze": stated}


def lock_data(lock: Lock) -> dict[str, Any]:
    """Return one lock."""
    return {"kind": lock.name.kind, "key": lock.name.key, "label": lock.name.label, "alarm": lock.moid}


def _holder(lock: Lock) -> Any:
    return lock.holder.model_dump(mode="json") if lock.holder is not None else None
