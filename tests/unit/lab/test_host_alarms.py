"""Alarms over the wire: made, found, triggered by maintenance mode, cleared and removed."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import OTHER_A100_HOST, HostRig

ENTERED, LEFT = vim.event.EnteredMaintenanceModeEvent, vim.event.ExitMaintenanceModeEvent


def when(event: Any, status: str, **more: Any) -> Any:
    return vim.alarm.EventAlarmExpression(eventType=event, objectType=vim.HostSystem, status=status, **more)


def spec(name: str = "in maintenance", *expressions: Any, enabled: bool = True) -> Any:
    both = expressions or (when(ENTERED, "yellow"), when(LEFT, "green"))
    return vim.alarm.AlarmSpec(
        name=name,
        description="why",
        enabled=enabled,
        expression=vim.alarm.OrAlarmExpression(expression=list(both)),
        setting=vim.alarm.AlarmSetting(toleranceRange=0, reportingFrequency=0),
    )


def triggered(rig: HostRig, *name: str) -> list[tuple[str, str]]:
    host = rig.host(*name)
    return [(state.alarm.info.name, state.overallStatus) for state in host.triggeredAlarmState]


def test_an_alarm_follows_maintenance_mode() -> None:
    rig = HostRig()
    alarm = rig.content.alarmManager.CreateAlarm(rig.host(), spec())
    assert alarm.info.entity == rig.host()
    assert not triggered(rig)
    rig.rest()
    assert triggered(rig) == [("in maintenance", "yellow")]
    assert not triggered(rig, OTHER_A100_HOST)
    assert rig.content.alarmManager.GetAlarmState(rig.host())[0].alarm == alarm
    rig.leave()
    assert not triggered(rig)


def test_an_alarm_above_hears_of_what_is_below() -> None:
    rig = HostRig()
    rig.content.alarmManager.CreateAlarm(rig.content.rootFolder, spec())
    rig.rest()
    assert triggered(rig) == [("in maintenance", "yellow")]


def test_an_alarm_that_is_off_or_made_too_late_says_nothing() -> None:
    rig = HostRig()
    manager = rig.content.alarmManager
    manager.CreateAlarm(rig.host(), spec("off", enabled=False))
    rig.rest()
    manager.CreateAlarm(rig.host(), spec("late"))
    assert not triggered(rig)


def test_an_alarm_is_found_on_its_entity_and_removed_with_what_it_triggered() -> None:
    rig = HostRig()
    manager = rig.content.alarmManager
    alarm = manager.CreateAlarm(rig.host(), spec())
    assert list(manager.GetAlarm(rig.host())) == [alarm]
    assert not manager.GetAlarm(rig.host(OTHER_A100_HOST))
    assert list(manager.GetAlarm(None)) == [alarm]
    rig.rest()
    alarm.RemoveAlarm()
    assert not triggered(rig)
    assert not manager.GetAlarm(None)
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        alarm.RemoveAlarm()


def test_an_alarm_is_given_another_reason() -> None:
    rig = HostRig()
    alarm = rig.content.alarmManager.CreateAlarm(rig.host(), spec())
    changed = spec()
    changed.description = "another"
    alarm.ReconfigureAlarm(changed)
    assert alarm.info.description == "another"


def test_names_of_alarms_are_taken_once() -> None:
    rig = HostRig()
    manager = rig.content.alarmManager
    alarm = manager.CreateAlarm(rig.host(), spec())
    with pytest.raises(vim.fault.DuplicateName) as caught:
        manager.CreateAlarm(rig.host(OTHER_A100_HOST), spec())
    assert getattr(caught.value, "object") == alarm  # noqa: B009 - pyvmomi's fault types are not declared
    with pytest.raises(vim.fault.InvalidName):
        manager.CreateAlarm(rig.host(), spec(""))
    manager.CreateAlarm(rig.host(OTHER_A100_HOST), spec("another"))


def test_an_event_is_named_by_its_id_too() -> None:
    rig = HostRig()
    by_id = when(vim.event.EventEx, "red", eventTypeId="vim.event.EnteredMaintenanceModeEvent")
    rig.content.alarmManager.CreateAlarm(rig.host(), spec("by id", by_id))
    rig.rest()
    assert triggered(rig) == [("by id", "red")]


def test_making_and_removing_alarms_takes_privileges() -> None:
    rig = HostRig()
    manager = rig.content.alarmManager
    alarm = manager.CreateAlarm(rig.host(), spec())
    rig.lab.faults.lacking |= {"Alarm.Create", "Alarm.Delete"}
    with pytest.raises(vim.fault.NoPermission):
        manager.CreateAlarm(rig.host(), spec("another"))
    with pytest.raises(vim.fault.NoPermission):
        alarm.RemoveAlarm()


def test_an_alarm_goes_with_what_it_was_defined_on() -> None:
    rig = HostRig()
    manager = rig.content.alarmManager
    vm = vim.VirtualMachine(rig.vm("archive-01").moid, rig.instance._stub)
    alarm = manager.CreateAlarm(vm, spec())
    kept = manager.CreateAlarm(rig.host(), spec("kept"))
    rig.done(vm.Destroy_Task())
    assert list(manager.GetAlarm(None)) == [kept]
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        alarm.RemoveAlarm()
