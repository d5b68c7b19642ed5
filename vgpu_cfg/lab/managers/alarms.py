"""The alarm manager: definitions are made and removed; events trigger them (`lab.events`)."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.estates.lies import DAY_SECONDS, SOON_SECONDS
from vgpu_cfg.lab.renderers.entity import triggered
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.inventory import Alarm, Managed


@answers("AlarmManager", "CreateAlarm")
def create_alarm(context: Context, thing: Managed, *, entity: Any, spec: Any) -> Alarm:
    """Define an alarm on an entity. Raises DuplicateName, InvalidName for an empty one."""
    target = _entity(context, entity)
    if not spec.name:
        raise vim.fault.InvalidName(name="", msg="The name '' is invalid.")
    same = next((alarm for alarm in _all(context) if alarm.spec.name == spec.name), None)
    if same is not None and not _may_be_twice(context, same):
        raise refusals.duplicate_name(spec.name, reference(same))
    now = context.lab.clock.now()
    made = Alarm(
        moid=context.state.new_moid(Alarm.moid_prefix),
        name=spec.name,
        parent=target.moid,
        spec=spec,
        modified=now - DAY_SECONDS if context.state.denies("alarm-time-is-its-creation") else now,
        user=context.lab.user,
    )
    context.state.alarms.append(made.moid)
    return context.state.add(made)


@answers("AlarmManager", "GetAlarm")
def get_alarm(context: Context, thing: Managed, *, entity: Any) -> list[Any]:
    """List the alarms that are defined on an entity itself, or all."""
    is_short = entity is None and context.state.denies("alarms-of-all-entities")
    wanted = context.state.root if is_short else None if entity is None else _entity(context, entity).moid
    return [
        vim.alarm.Alarm(alarm.moid)
        for alarm in _all(context)
        if (wanted is None or alarm.parent == wanted) and _is_visible(context, alarm)
    ]


@answers("AlarmManager", "GetAlarmState")
def get_alarm_state(context: Context, thing: Managed, *, entity: Any) -> list[Any]:
    """List the alarms that are triggered on an entity."""
    return triggered(context, _entity(context, entity))


@answers("Alarm", "ReconfigureAlarm")
def reconfigure_alarm(context: Context, thing: Alarm, *, spec: Any) -> None:
    """Replace a definition; triggered alarms stay. Raises DuplicateName for another alarm's name."""
    same = next((alarm for alarm in _all(context) if alarm.spec.name == spec.name), thing)
    if same is not thing:
        raise refusals.duplicate_name(spec.name, reference(same))
    thing.spec, thing.name = spec, spec.name
    if not context.state.denies("alarm-time-moves"):
        thing.modified, thing.user = context.lab.clock.now(), context.lab.user
    context.state.touch(thing)


@answers("Alarm", "RemoveAlarm")
def remove_alarm(context: Context, thing: Alarm) -> None:
    """Remove a definition with all that it triggered."""
    entities = [context.state.objects[moid] for moid in thing.triggered if moid in context.state.objects]
    context.state.alarms.remove(thing.moid)
    context.state.remove(thing)
    context.state.touch(*entities)


def _may_be_twice(context: Context, same: Alarm) -> bool:
    age = context.lab.clock.now() - same.modified
    at_once = age < 1 and context.state.denies("alarm-names-are-unique-at-once")
    return at_once or context.state.denies("alarm-names-are-unique")


def _is_visible(context: Context, alarm: Alarm) -> bool:
    age = context.lab.clock.now() - alarm.modified
    if age < SOON_SECONDS and context.state.denies("alarms-are-visible-at-once"):
        return False
    is_reader = context.lab.lacks(context.state.root, "Alarm.Create")
    return not (is_reader and context.state.denies("alarms-are-visible-to-readers"))


def _all(context: Context) -> list[Alarm]:
    return [context.state.get(moid, Alarm) for moid in context.state.alarms]


def _entity(context: Context, entity: Any) -> Managed:
    found = context.state.objects.get(entity._GetMoId())
    if found is None:
        raise object_gone(entity)
    return found
