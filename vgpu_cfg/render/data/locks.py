"""What programs get of locks."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.locks import Lock, Locks


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
        "without_run": [lock_data(lock) for lock in found.unknown],
    }


def lock_data(lock: Lock) -> dict[str, Any]:
    """Return one lock."""
    return {"kind": lock.name.kind, "key": lock.name.key, "label": lock.name.label, "alarm": lock.moid}


def _holder(lock: Lock) -> Any:
    return lock.holder.model_dump(mode="json") if lock.holder is not None else None
