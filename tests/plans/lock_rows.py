"""Locks of runs from the words of a table: which run has locked what, and how long it said nothing."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from vgpu_cfg.model.locks import Lock, LockHolder, LockName, Locks


def make_locks(rows: dict[str, Any], now: datetime) -> Locks:
    """Build what vCenter keeps; a row is a run with what it `holds`, as in `host esx-01`."""
    held: list[Lock] = []
    for run, row in rows.items():
        holder = LockHolder(
            run=run,
            command="apply",
            plan=row.get("plan", "demo"),
            user="anna",
            machine="ci-7",
            pid=812,
            since=now - timedelta(hours=1),
        )
        beat_at = now - timedelta(minutes=row.get("silent_minutes", 0), seconds=41)
        for words in row["holds"]:
            kind, label = words.split()
            key = label if kind in ("plan", "id") else f"{kind}-{label}"
            name = LockName.model_validate({"kind": kind, "key": key, "label": label})
            held.append(Lock(moid=f"alarm-{len(held)}", name=name, holder=holder, beat_at=beat_at))
    return Locks(now=now, held=tuple(held))
