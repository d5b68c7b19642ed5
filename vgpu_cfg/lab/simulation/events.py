"""What happens: an event of an entity is kept, and sets or clears the alarms above it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Alarm, AlarmState, Managed

GREEN = "green"


def post(lab: Simulation, thing: Managed, event: str) -> None:
    """Let an event (its wsdl name) of an entity reach the alarms on the entity and on what it stands in."""
    past_events.record(lab, thing, event)
    above = {each.moid for each in _chain(lab, thing)}
    for moid in lab.state.alarms:
        alarm = lab.state.get(moid, Alarm)
        if alarm.parent not in above or not alarm.spec.enabled:
            continue
        for expression in _expressions(alarm.spec.expression):
            if _listens(expression, event):
                _set(lab, alarm, thing, str(expression.status or "red"))


def _chain(lab: Simulation, thing: Managed) -> Iterator[Managed]:
    at: Managed | None = thing
    while at is not None:
        yield at
        at = lab.state.objects.get(at.parent or "")


def _expressions(expression: Any) -> Iterator[Any]:
    if isinstance(expression, vim.alarm.OrAlarmExpression):
        for inner in expression.expression or ():
            yield from _expressions(inner)
    elif isinstance(expression, vim.alarm.EventAlarmExpression):
        yield expression


def _listens(expression: Any, event: str) -> bool:
    if expression.eventTypeId:
        return bool(expression.eventTypeId == f"vim.event.{event}")
    wanted = expression.eventType
    happened = VmomiSupport.GetWsdlType("urn:vim25", event)
    return isinstance(wanted, type) and issubclass(happened, wanted)


def _set(lab: Simulation, alarm: Alarm, thing: Managed, status: str) -> None:
    if status == GREEN:
        alarm.triggered.pop(thing.moid, None)
    else:
        alarm.triggered[thing.moid] = AlarmState(status, lab.clock.now())
    lab.state.touch(alarm, thing)
