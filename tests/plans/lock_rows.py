"""Locks of runs and reservations of plans from the words of a table: who holds what, since or till when."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from vgpu_cfg.model.locks import Freeze, KeptFreeze, Lock, LockHolder, LockName, Locks
from vgpu_cfg.model.reservations import KeptReservation, Reservation, Reservations


def make_locks(rows: dict[str, Any], now: datetime, frozen_until: str = "") -> Locks:
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
    freezes = []
    if frozen_until:
        content = {"until": frozen_until, "since": now - timedelta(days=9), "reason": "year-end closing"}
        found = Freeze.model_validate(content | {"user": "anna", "machine": "ci-7"})
        freezes.append(KeptFreeze(moid="alarm-freeze", freeze=found, account="anna@vsphere.local"))
    return Locks(now=now, held=tuple(held), freezes=tuple(freezes))


def make_reservations(rows: dict[str, Any], now: datetime, plan_id: str) -> Reservations:
    """Build what vCenter keeps; a row is a plan with `gpus` of `board` in `cluster`, `from` and `until`."""
    kept = []
    for plan, row in rows.items():
        cluster = row.get("cluster", "gpu")
        held = {"cluster": f"cluster-{cluster}", "label": cluster, "board": row["board"], "gpus": row["gpus"]}
        content = {"plan": plan, "begins": row["from"], "ends": row["until"], "holds": [held]}
        own = {"id": plan_id} if plan == "demo" else {}
        reservation = Reservation.model_validate(content | own)
        kept.append(
            KeptReservation(
                moid=f"alarm-{plan}", name=reservation.alarm_name, reservation=reservation, account="anna"
            )
        )
    return Reservations(now=now, kept=tuple(kept))
