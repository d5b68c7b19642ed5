"""The locks, reservations and freezes of a vCenter, and its time.

Alarms are listed without naming an entity, so those of every folder are found: a run whose settings name
another folder for its locks is seen.

Belief: alarms-are-visible-to-readers, alarms-of-all-entities.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from pyVmomi import vim

from vgpu_cfg.model.locks import FREEZE_NAME, KeptFreeze, Lock, Locks, parse_freeze, parse_lock
from vgpu_cfg.model.reservations import RESERVATION_HEAD, KeptReservation, parse_reservation
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

_READING = "reading the runs' locks"
# Belief: alarm-time-is-its-creation.
ALARM_INFO = (
    Paths(
        "vim.alarm.Alarm",
        ("info.name", "info.description", "info.lastModifiedTime", "info.lastModifiedUser"),
    ),
)
"""The properties that are read of each alarm."""


def read_locks(session: Session) -> Locks:
    """Read all locks and reservations that the account may see: three round trips, two without any alarm.

    A vCenter has some hundred alarms of its own; their names and texts come along.
    """
    starts = alarm_starts(session)
    return locks_of(session, collect_from(session, ALARM_INFO, starts) if starts else ())


def read_held(session: Session) -> tuple[Lock, ...]:
    """Read all locks alone that the account may see: two round trips, one without any alarm."""
    starts = alarm_starts(session)
    return _held(collect_from(session, ALARM_INFO, starts)) if starts else ()


def alarm_starts(session: Session) -> list[Start]:
    """Say which alarms there are to read, in one round trip."""
    content = session.service_content
    if content.alarmManager is None:
        return []
    with translated(_READING, session.address):
        alarms = content.alarmManager.GetAlarm() or ()
    return [Start("vim.alarm.Alarm", str(alarm._moId)) for alarm in alarms]


def locks_of(session: Session, items: Iterable[Item], now: datetime | None = None) -> Locks:
    """Return the locks and reservations among alarms; one round trip for vCenter's time.

    That is not asked where a time is given, `now`, and nothing is reserved or frozen.
    """
    alarms = tuple(items)
    held = _held(alarms)
    reserved = tuple(one for item in alarms if (one := _reservation(item)) is not None)
    freezes = tuple(_freeze(item) for item in alarms if item.get("info.name") == FREEZE_NAME)
    if reserved or freezes or now is None:
        with translated(_READING, session.address):
            now = vim.ServiceInstance("ServiceInstance", session.stub).CurrentTime()
    return Locks(now=now, held=held, server=session.address, reserved=reserved, freezes=freezes)


def _held(items: Iterable[Item]) -> tuple[Lock, ...]:
    return tuple(lock for item in items if (lock := _lock(item)) is not None)


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


def _freeze(item: Item) -> KeptFreeze:
    return KeptFreeze(
        moid=item.moid,
        freeze=parse_freeze(str(item.get("info.description") or "")),
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
