"""How GPUs are reserved for a plan, or given back: written, and read back; nothing is disturbed."""

from __future__ import annotations

from vgpu_cfg.changes.change import SetReservation
from vgpu_cfg.errors import NotConfirmed, StalePlan
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession
from vgpu_cfg.execution.run.step import Step, StepResult
from vgpu_cfg.model.reservations import KeptReservation


def set_reservation(change: SetReservation, session: RunSession) -> Step:
    """Write the plan's reservation, and see that it shows; no task is started."""
    yield from ()
    kept = _kept(change, session)
    if (kept.reservation if kept is not None else None) == change.reservation:
        return StepResult(is_needed=False, message="it is so already")
    is_written = session.begin(lambda: session.writer.set_reservation(change.reservation, change.alarm))
    shown = _kept(change, session)
    if (shown.reservation if shown is not None else None) == change.reservation:
        return StepResult()
    if not is_written:
        raise StalePlan(
            "somebody changed what is reserved under this plan's name meanwhile",
            subject=change.subject.name,
            remedy=PLAN_AGAIN,
        )
    raise NotConfirmed(
        "vCenter does not show the reservation as it was written",
        subject=change.subject.name,
        remedy=f"look among the alarm definitions of vCenter; then {PLAN_AGAIN}",
    )


def _kept(change: SetReservation, session: RunSession) -> KeptReservation | None:
    locks = session.reader.read_locks()
    if locks is None:
        return None
    found = (one for one in locks.reserved if one.moid == change.alarm)
    by_name = change.reservation and locks.reservations.named(change.reservation.alarm_name)
    return next(found, None) or by_name or None
