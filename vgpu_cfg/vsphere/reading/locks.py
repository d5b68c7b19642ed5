"""Which locks and reservations a vCenter keeps, and what time it is there."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pyVmomi import vim

from vgpu_cfg.model.locks import Lock, Locks, parse_lock
from vgpu_cfg.model.reservations import RESERVATION_HEAD, KeptReservation, Reservations, parse_reservation
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

_READING = "reading the locks of runs"
_INFO = (
    Paths(
        "vim.alarm.Alarm",
        ("info.name", "info.description", "info.lastModifiedTime", "info.lastModifiedUser"),
    ),
)


def read_locks(session: Session) -> Locks:
    """Read all locks and reservations that the account may see: three round trips, two without any alarm.

    A vCenter has some hundred alarms of its own; their names and texts come along.
    """
    with translated(_READING, session.address):
        now = _now(session)
    items = _alarms(session)
    held = tuple(lock for item in items if (lock := _lock(item)) is not None)
    return Locks(now=now, held=held, server=session.address, reserved=_reserved(items))


def read_reservations(session: Session, now: datetime | None = None) -> Reservations:
    """Read all reservations that the account may see: two round trips, and one for vCenter's time.

    That is not asked where nothing is reserved and a time is given, `now`.
    """
    kept = _reserved(_alarms(session))
    if kept or now is None:
        with translated(_READING, session.address):
            now = _now(session)
    return Reservations(now=now, kept=kept)


def _now(session: Session) -> datetime:
    now: datetime = vim.ServiceInstance("ServiceInstance", session.stub).CurrentTime()
    return now


def _alarms(session: Session) -> list[Item]:
    content = session.service_content
    if content.alarmManager is None:
        return []
    with translated(_READING, session.address):
        alarms = content.alarmManager.GetAlarm(content.rootFolder) or ()
    starts = [Start("vim.alarm.Alarm", str(alarm._moId)) for alarm in alarms]
    return collect_from(session, _INFO, starts) if starts else []


def _reserved(items: Iterable[Item]) -> tuple[KeptReservation, ...]:
    return tuple(one for item in items if (one := _reservation(item)) is not None)


def _lock(item: Item) -> Lock | None:
    parsed = parse_lock(str(item.get("info.name") or ""), str(item.get("info.description") or ""))
    if parsed is None:
        return None
    name, holder = parsed
    return Lock(
        moid=item.moid,
        name=name,
        holder=holder,
        beat_at=item.get("info.lastModifiedTime"),
        account=str(item.get("info.lastModifiedUser") or ""),
    )


def _reservation(item: Item) -> KeptReservation | None:
    name = str(item.get("info.name") or "")
    if not name.startswith(RESERVATION_HEAD):
        return None
    return KeptReservation(
        moid=item.moid,
        name=name,
        reservation=parse_reservation(name, str(item.get("info.description") or "")),
        account=str(item.get("info.lastModifiedUser") or ""),
    )
