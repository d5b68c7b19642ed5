"""Alarms of vgpu-cfg at vCenter: locks, reservations, and the reason why a host is in maintenance mode.

Locks and reservations are alarms of one folder, of which no two can have one name. CreateAlarm refuses a name
that exists (`DuplicateName`, vSphere API reference): the first request wins. The alarm triggers nothing.
`lastModifiedTime` is vCenter's own and moves when it is reconfigured: that is the heartbeat. All are on one
folder, the root unless the settings name another, so that their names are compared whether vCenter compares
them in all of its inventory or on one object alone.

A host's alarm belongs to one host and one plan. Entering maintenance mode turns it yellow, leaving it
green; it is made before the host enters. vCenter's own alarms are built of the same expressions
(event type, object type, status). How long a name may be is unproven.

Belief: alarm-names-are-unique, alarm-names-are-unique-at-once, alarms-are-visible-at-once, alarm-time-moves,
disabled-alarm-expression, maintenance-alarm-warns.
"""

from __future__ import annotations

import contextlib
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.changes.privileges import LOCK, REMOVE_LOCK
from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.model.locks import (
    BEAT_SECONDS,
    FREEZE_NAME,
    OWN,
    Freeze,
    LockHolder,
    LockName,
    Locks,
    lock_text,
)
from vgpu_cfg.model.reservations import Reservation
from vgpu_cfg.vsphere.reading.locks import read_locks
from vgpu_cfg.vsphere.reading.privileges import read_missing_privileges
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import not_offered, translated
from vgpu_cfg.vsphere.wire.lost_tasks import running_tasks
from vgpu_cfg.vsphere.wire.session import Session

_ENTERS = (vim.event.EnteredMaintenanceModeEvent, "yellow")


class VCenterLocks:
    """A LockKeeper on a session."""

    def __init__(self, session: Session, beat_seconds: float = BEAT_SECONDS) -> None:
        self._session = session
        self.beat_seconds = beat_seconds

    @property
    def server(self) -> str:
        """How the vCenter is addressed."""
        return self._session.address

    @property
    def place(self) -> str:
        """The folder of the locks, in words."""
        return self._session.alarm_folder or "vCenter's root folder"

    def read(self) -> Locks:
        """Read all locks; three round trips."""
        return read_locks(self._session)

    def missing_privileges(self, *, to_remove: bool = False) -> tuple[str, ...]:
        """Return the missing privileges for locks, or for removing some; one round trip.

        An account that may not ask that of the folder has none of them: each role with any privilege
        includes reading.
        """
        home = str(self._session.alarm_home._moId)
        needed = (REMOVE_LOCK,) if to_remove else LOCK.privileges
        try:
            return read_missing_privileges(self._session, {home: needed}).get(home, ())
        except NotPermitted:
            return needed

    def make(self, name: LockName, holder: LockHolder) -> str | None:
        """Make a lock and return its moid; None where one of that name exists. One round trip.

        Raises NotPermitted where the account may not.
        """
        return self._make(f"creating the lock on {name}", _spec(name, holder, 0))

    def freeze(self, freeze: Freeze) -> bool:
        """Keep a freeze; False where there is one. One round trip. Raises NotPermitted."""
        return self._make("creating the freeze", disabled_alarm(FREEZE_NAME, freeze.text)) is not None

    def _make(self, doing: str, spec: Any) -> str | None:
        manager = alarm_manager(self._session)
        home = self._session.alarm_home
        with translated(doing, str(home._moId)):
            try:
                return str(manager.CreateAlarm(home, spec)._moId)
            except vim.fault.DuplicateName:
                return None

    def beat(self, moid: str, name: LockName, holder: LockHolder, beats: int) -> bool:
        """Say that the run goes on; False where the lock has gone. One round trip."""
        with translated("refreshing the lock", moid):
            try:
                vim.alarm.Alarm(moid, self._session.stub).ReconfigureAlarm(_spec(name, holder, beats))
            except vmodl.fault.ManagedObjectNotFound:
                return False
        return True

    def running_tasks(self, account: str) -> tuple[str, ...]:
        """Name the tasks that an account has begun, and that go on; one round trip."""
        with translated("reading running tasks", self._session.address):
            return running_tasks(self._session.service_content, account)

    def remove(self, moid: str) -> None:
        """Remove a lock, if it is there. One round trip. Raises NotPermitted where the account may not."""
        _remove(self._session, moid, "removing the lock", moid)


def _spec(name: LockName, holder: LockHolder, beats: int) -> Any:
    return disabled_alarm(name.text, lock_text(name, holder, beats))


def write_reservation(session: Session, reservation: Reservation | None, alarm: str) -> bool:
    """Make, change or remove a reservation in one call; `alarm` is the moid of the current one, "" for none.

    Returns False if another of its name was made meanwhile, or if the current one has gone.
    """
    manager = alarm_manager(session)
    home = session.alarm_home
    kept = vim.alarm.Alarm(alarm, session.stub) if alarm else None
    with translated("writing the reservation", alarm or str(home._moId)):
        try:
            if reservation is None:
                if kept is not None:
                    kept.RemoveAlarm()
                return kept is not None
            spec = disabled_alarm(reservation.alarm_name, reservation.text)
            if kept is None:
                manager.CreateAlarm(home, spec)
            else:
                kept.ReconfigureAlarm(spec)
        except (vim.fault.DuplicateName, vmodl.fault.ManagedObjectNotFound):
            return False
    return True


def alarm_manager(session: Session) -> Any:
    """Return vCenter's manager of alarms. Raises NotOffered where it has none."""
    manager = session.service_content.alarmManager
    if manager is None:
        raise not_offered("this vCenter does not support alarms", session.address)
    return manager


def disabled_alarm(name: str, description: str) -> Any:
    """Return an alarm that informs people: vCenter asks for an expression, which never triggers."""
    return _alarm(name, description, _ENTERS, enabled=False)


def _alarm(name: str, description: str, *events: tuple[Any, str], enabled: bool) -> Any:
    """Return an alarm that takes a status at each of these events of a host."""
    return vim.alarm.AlarmSpec(
        name=name,
        description=description,
        enabled=enabled,
        expression=vim.alarm.OrAlarmExpression(
            expression=[
                vim.alarm.EventAlarmExpression(eventType=event, objectType=vim.HostSystem, status=status)
                for event, status in events
            ]
        ),
        setting=vim.alarm.AlarmSetting(toleranceRange=0, reportingFrequency=0),
    )


def _remove(session: Session, moid: str, doing: str, subject: str) -> None:
    """Remove an alarm; one that has gone since it was read is gone, as asked. One round trip."""
    with translated(doing, subject), contextlib.suppress(vmodl.fault.ManagedObjectNotFound):
        vim.alarm.Alarm(moid, session.stub).RemoveAlarm()


_NAMES = (Paths("vim.HostSystem", ("name",)), Paths("vim.alarm.Alarm", ("info.name",)))


def alarm_name(plan: str, host_name: str) -> str:
    """Return what this tool calls its alarm."""
    return f"{OWN}{plan}: {host_name}"


def raise_alarm(session: Session, host_moid: str, plan: str, reason: str) -> None:
    """Make a plan's alarm on a host, or give the one that is there this reason.

    Two round trips, three where one of the name exists. Raises NotPermitted where the account may
    make no alarms: the caller decides whether that matters.
    """
    manager = alarm_manager(session)
    names = _names(session, host_moid, ())
    name = alarm_name(plan, names.get(host_moid, host_moid))
    spec = _alarm(name, reason, _ENTERS, (vim.event.ExitMaintenanceModeEvent, "green"), enabled=True)
    with translated("creating the alarm", host_moid):
        try:
            manager.CreateAlarm(vim.HostSystem(host_moid), spec)
        except vim.fault.DuplicateName as fault:
            # Where the fault names no alarm the one that exists is left as it is.
            found = getattr(fault, "object", None)
            if isinstance(found, vim.alarm.Alarm):
                vim.alarm.Alarm(found._moId, session.stub).ReconfigureAlarm(spec)


def clear_alarm(session: Session, host_moid: str, plan: str) -> None:
    """Remove a plan's alarm from a host, if it is there. Three round trips, one where there is none."""
    manager = alarm_manager(session)
    with translated("looking up the alarm", host_moid):
        alarms = tuple(str(alarm._moId) for alarm in manager.GetAlarm(vim.HostSystem(host_moid)) or ())
    if not alarms:
        return
    names = _names(session, host_moid, alarms)
    wanted = alarm_name(plan, names.get(host_moid, host_moid))
    for moid in alarms:
        if names.get(moid) == wanted:
            _remove(session, moid, "removing the alarm", host_moid)
            return


def _names(session: Session, host_moid: str, alarms: tuple[str, ...]) -> dict[str, str]:
    """Read the names of a host and of alarms, by moid, in one round trip."""
    starts = [Start("vim.HostSystem", host_moid), *(Start("vim.alarm.Alarm", moid) for moid in alarms)]
    return {item.moid: _name(item) for item in collect_from(session, _NAMES, starts)}


def _name(item: Item) -> str:
    return str(item.get("name") or item.get("info.name") or "")
