"""The alarm that says why a host is in maintenance mode: what triggers it, and how it is found again.

An alarm belongs to one host and one plan. Entering maintenance mode turns it yellow, leaving it
green; it is made before the host enters. vCenter's own alarms are built of the same expressions
(event type, object type, status). How long a name may be is unproven.

Belief: maintenance-alarm-warns.
"""

from __future__ import annotations

import contextlib
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import not_offered, translated
from vgpu_cfg.vsphere.wire.session import Session

_NAMES = (Paths("vim.HostSystem", ("name",)), Paths("vim.alarm.Alarm", ("info.name",)))


def alarm_name(plan: str, host_name: str) -> str:
    """Return what this tool calls its alarm."""
    return f"vgpu-cfg {plan}: {host_name}"


def raise_alarm(session: Session, host_moid: str, plan: str, reason: str) -> None:
    """Make a plan's alarm on a host, or give the one that is there this reason.

    Two round trips, three where one of the name exists. Raises NotPermitted where the account may
    make no alarms: the caller decides whether that matters.
    """
    manager = alarm_manager(session)
    names = _names(session, host_moid, ())
    spec = alarm_spec(alarm_name(plan, names.get(host_moid, host_moid)), reason)
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
            # One that went since it was listed is gone, as asked.
            with (
                translated("removing the alarm", host_moid),
                contextlib.suppress(vmodl.fault.ManagedObjectNotFound),
            ):
                vim.alarm.Alarm(moid, session.stub).RemoveAlarm()
            return


def alarm_spec(name: str, reason: str) -> Any:
    """Return the alarm that is yellow while the host is in maintenance mode."""
    return vim.alarm.AlarmSpec(
        name=name,
        description=reason,
        enabled=True,
        expression=vim.alarm.OrAlarmExpression(
            expression=[
                _when(vim.event.EnteredMaintenanceModeEvent, "yellow"),
                _when(vim.event.ExitMaintenanceModeEvent, "green"),
            ]
        ),
        setting=vim.alarm.AlarmSetting(toleranceRange=0, reportingFrequency=0),
    )


def _when(event: Any, status: str) -> Any:
    return vim.alarm.EventAlarmExpression(eventType=event, objectType=vim.HostSystem, status=status)


def alarm_manager(session: Session) -> Any:
    """Return vCenter's manager of alarms. Raises NotOffered where it has none."""
    manager = session.service_content.alarmManager
    if manager is None:
        raise not_offered("this vCenter does not support alarms", session.address)
    return manager


def _names(session: Session, host_moid: str, alarms: tuple[str, ...]) -> dict[str, str]:
    """Read the names of a host and of alarms, by moid, in one round trip."""
    starts = [Start("vim.HostSystem", host_moid), *(Start("vim.alarm.Alarm", moid) for moid in alarms)]
    return {item.moid: _name(item) for item in collect_from(session, _NAMES, starts)}


def _name(item: Item) -> str:
    return str(item.get("name") or item.get("info.name") or "")
