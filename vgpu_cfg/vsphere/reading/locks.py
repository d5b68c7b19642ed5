"""Which locks and reservations a vCenter keeps, and what time it is there."""

from __future__ import annotations

from pyVmomi import vim

from vgpu_cfg.model.locks import Lock, Locks, parse_lock
from vgpu_cfg.model.reservations import RESERVATION_HEAD, KeptReservation, parse_reservation
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

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
    content = session.service_content
    with translated("reading the locks of runs", session.address):
        now = vim.ServiceInstance("ServiceInstance", session.stub).CurrentTime()
        if content.alarmManager is None:
            return Locks(now=now, server=session.address)
        alarms = content.alarmManager.GetAlarm(content.rootFolder) or ()
    starts = [Start("vim.alarm.Alarm", str(alarm._moId)) for alarm in alarms]
    items = collect_from(session, _INFO, starts) if starts else []
    locks = (_lock(item) for item in items)
    held = tuple(lock for lock in locks if lock is not None)
    reserved = (_reservation(item) for item in items)
    found = tuple(one for one in reserved if one is not None)
    return Locks(now=now, held=held, server=session.address, reserved=found)


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
