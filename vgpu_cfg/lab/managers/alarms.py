"""The alarm manager: definitions are made and removed; events trigger them (`lab.events`)."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.renderers.alarms import triggered
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.state.inventory import Alarm, Managed


@answers("AlarmManager", "CreateAlarm")
def create_alarm(context: Context, thing: Managed, *, entity: Any, spec: Any) -> Alarm:
    """Define an alarm on an entity. Raises DuplicateName, InvalidName for an empty one."""
    target = _entity(context, entity)
    if not spec.name:
        raise vim.fault.InvalidName(name="", msg="The name '' is invalid.")
    same = next((alarm for alarm in _all(context) if alarm.spec.name == spec.name), None)
    if same is not None:
        raise refusals.duplicate_name(spec.name, reference(same))
    made = Alarm(
        moid=context.state.new_moid(Alarm.moid_prefix),
        name=spec.name,
        parent=target.moid,
        spec=spec,
        modified=context.lab.clock.now(),
        user=context.lab.user,
    )
    context.state.alarms.append(made.moid)
    return context.state.add(made)


@answers("AlarmManager", "GetAlarm")
def get_alarm(context: Context, thing: Managed, *, entity: Any) -> list[Any]:
    """List the alarms that are defined on an entity itself, or all."""
    wanted = None if entity is None else _entity(context, entity).moid
    return [
        vim.alarm.Alarm(alarm.moid) for alarm in _all(context) if wanted is None or alarm.parent == wanted
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
    thing.modified, thing.user = context.lab.clock.now(), context.lab.user
    context.state.touch(thing)


@answers("Alarm", "RemoveAlarm")
def remove_alarm(context: Context, thing: Alarm) -> None:
    """Remove a definition with all that it triggered."""
    entities = [context.state.objects[moid] for moid in thing.triggered if moid in context.state.objects]
    context.state.alarms.remove(thing.moid)
    context.state.remove(thing)
    context.state.touch(*entities)


def _all(context: Context) -> list[Alarm]:
    return [context.state.get(moid, Alarm) for moid in context.state.alarms]


def _entity(context: Context, entity: Any) -> Managed:
    found = context.state.objects.get(entity._GetMoId())
    if found is None:
        raise object_gone(entity)
    return found
