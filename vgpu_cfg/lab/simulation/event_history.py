"""Filtering of past events, and the rendering of one (vim `Event`).

The entity of the event of a clone (the new VM), and VmDeployedEvent for a template's clone, are of the types'
descriptions. An event keeps the names of its time. Assumed: that a filter by an entity with all below it
finds the events of objects that have gone from there, and that the name of a type may be written with
"vim.event." before it (as vSphere's lists of events have it) and without (as govc has it).

Logging of events: an event of an entity is kept, and sets or clears the alarms above it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.api.versions import NAMESPACE
from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import Context
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.simulation.tasks import PAGE_SIZE, entities_of
from vgpu_cfg.lab.state.inventory import Alarm, AlarmState, LabState, Managed, PastEvent, VirtualMachine

_OF_CLIENTS = "GeneralUserEvent"

GREEN = "green"
_OF_NOBODY = ("HostConnectionLostEvent", "HostConnectedEvent")


@dataclass(slots=True, kw_only=True)
class EventCollector(Service):
    """One collector. `at` is the key of the event that was read last."""

    kind: str = "EventHistoryCollector"
    spec: Any
    page_size: int = PAGE_SIZE
    at: float = 0

    def newest(self, state: LabState) -> list[PastEvent]:
        """Return the page of newest events, newest first."""
        return list(matching_events(state, self.spec))[-self.page_size :][::-1]


def matching_events(state: LabState, spec: Any) -> Iterator[PastEvent]:
    """Yield the events that a filter lets through, oldest first."""
    if spec.alarm is not None or spec.scheduledTask is not None or spec.tag:
        return
    wanted = entities_of(state, spec.entity) if spec.entity is not None else None
    is_deep = spec.entity is not None and spec.entity.recursion == "all"
    if state.denies("event-filter-covers-a-folder"):
        wanted, is_deep = {spec.entity.entity._moId} if spec.entity is not None else None, False
    for moid in state.events:
        event = state.get(moid, PastEvent)
        own = event.entities if is_deep else event.entities[:1]
        if (wanted is None or not wanted.isdisjoint(own)) and _passes(state, event, spec):
            yield event


def event_shown(context: Context, event: PastEvent) -> Any:
    """Return an event as it goes over the wire."""
    kind = VmomiSupport.GetWsdlType(NAMESPACE, event.kind)
    known = {name: value for name, value in event.values.items() if _has(kind, name)}
    made = kind(
        key=event.key,
        chainId=event.chain_id,
        createdTime=as_datetime(event.at),
        userName=event.user,
        **known,
    )
    if _has(kind, "template"):
        vm = context.state.find(event.entities[0], VirtualMachine)
        made.template = vm is not None and vm.is_template
    return made


def _has(kind: Any, name: str) -> bool:
    return any(one.name == name for one in kind._GetPropertyList())


def _spellings(state: LabState, kind: str) -> set[str]:
    """Return the names by which a filter knows a type."""
    if state.denies("event-filter-by-type-id"):
        return set()
    if state.denies("event-type-spelling"):
        return {f"com.vmware.vc.{kind}"}
    return {f"vim.event.{kind}"} | (set() if state.denies("event-filter-takes-bare-names") else {kind})


def _passes(state: LabState, event: PastEvent, spec: Any) -> bool:
    if event.entities[0] not in state.objects and state.denies("event-filter-finds-removed-vms"):
        return False
    kind = VmomiSupport.GetWsdlType(NAMESPACE, event.kind)
    at = as_datetime(event.at)
    users = spec.userName
    return (
        (not spec.eventTypeId or not _spellings(state, event.kind).isdisjoint(spec.eventTypeId))
        and (not spec.type or any(issubclass(kind, wanted) for wanted in spec.type))
        and (not spec.eventChainId or event.chain_id == spec.eventChainId)
        and (not spec.category or ("user" if event.kind == _OF_CLIENTS else "info") in spec.category)
        and (users is None or (not users.systemUser and (not users.userList or event.user in users.userList)))
        and (spec.time is None or spec.time.beginTime is None or at >= spec.time.beginTime)
        and (spec.time is None or spec.time.endTime is None or at <= spec.time.endTime)
    )


def post(lab: Simulation, thing: Managed, event: str) -> None:
    """Pass an event (its wsdl name) of an entity to the alarms on the entity and on its parents."""
    by = "" if event in _OF_NOBODY else lab.user
    past_events.record(lab, thing, event, by=by)
    if lab.state.denies("maintenance-alarm-warns"):
        return
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
