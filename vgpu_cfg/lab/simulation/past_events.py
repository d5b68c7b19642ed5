"""Past events that a vCenter keeps of tasks and calls: their filters, their rendering, and their alarms.

Kinds and fields are those of vim `Event` and the types below it. That an event of a reconfiguration has the
whole ConfigSpec is LucD's finding (lucd.info, "Events - Part 3"). The text of `configChanges` for a cluster
is assumed: the one that a vCenter writes there is in no document that was found.

The entity of the event of a clone (the new VM), and VmDeployedEvent for a template's clone, are of the types'
descriptions. An event keeps the names of its time. Assumed: that a filter by an entity with all below it
finds the events of objects that have gone from there, and that the name of a type may be written with
"vim.event." before it (as vSphere's lists of events have it) and without (as govc has it).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import Service, reference
from vgpu_cfg.lab.api.versions import NAMESPACE
from vgpu_cfg.lab.simulation.bends import is_logged
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import (
    Alarm,
    AlarmState,
    Cluster,
    Datacenter,
    Host,
    LabState,
    Managed,
    PastEvent,
    Task,
    VirtualMachine,
    below,
)
from vgpu_cfg.lab.state.inventory import VirtualMachine as Vm

KEPT_EVENTS = 2000
PAGE_SIZE = 10
"""The entries of a collector's latest page, unless a client sets their number."""
_OF_POWER = {
    "PowerOnVM_Task": "VmPoweredOnEvent",
    "PowerOffVM_Task": "VmPoweredOffEvent",
    "SuspendVM_Task": "VmSuspendedEvent",
    "ResetVM_Task": "VmResettingEvent",
}
_ARGUMENTS: Mapping[type[Managed], tuple[str, Any]] = {
    Vm: ("vm", vim.event.VmEventArgument),
    Host: ("host", vim.event.HostEventArgument),
    Cluster: ("computeResource", vim.event.ComputeResourceEventArgument),
    Datacenter: ("datacenter", vim.event.DatacenterEventArgument),
}


@dataclass(frozen=True, slots=True)
class Before:
    """An event's data on an object before a task: its name, and its place."""

    name: str
    around: Mapping[str, Any]
    entities: tuple[str, ...]


def before(lab: Simulation, thing: Managed) -> Before:
    """Note the parts of an object that a task may change or remove."""
    about = list(_about(lab.state, thing))
    return Before(thing.name, dict(_argument(one) for one in about), tuple(one.moid for one in about))


def record(
    lab: Simulation,
    thing: Managed,
    kind: str,
    *,
    was: Before | None = None,
    task: Task | None = None,
    by: str | None = None,
    **values: Any,
) -> None:
    """Keep an event of an object in its current state, or that before a task; forget the oldest.

    Its user is the one that began the task, else the caller, unless `by` names another.
    """
    state = lab.state
    if not is_logged(state, kind):
        return
    told = was or before(lab, thing)
    state.last_event += 1
    event = PastEvent(
        moid=f"event-{state.last_event}",
        name=kind,
        kind=kind,
        key=state.last_event,
        chain_id=state.last_event if task is None or _is_apart(state) else task.event_chain_id,
        at=lab.clock.now(),
        user=by if by is not None else lab.user if task is None else task.user,
        entities=told.entities,
        values={**told.around, **values},
    )
    state.add(event)
    state.events.append(event.moid)
    for moid in state.events[:-KEPT_EVENTS]:
        state.remove(state.objects[moid])
    del state.events[:-KEPT_EVENTS]


def _is_apart(state: LabState) -> bool:
    return state.denies("event-shares-its-tasks-chain")


def record_task(lab: Simulation, task: Task, subject: Managed, was: Before, result: Any) -> None:
    """Keep the event of a task that ends well now."""
    made = _of_task(lab, task, subject, was, result)
    if made is not None:
        about, kind, earlier, values = made
        record(lab, about, kind, was=earlier, task=task, **values)


_Told = tuple[Managed, str, Before | None, dict[str, Any]]


def _of_task(lab: Simulation, task: Task, subject: Managed, was: Before, result: Any) -> _Told | None:
    match task.name, subject:
        case (("CloneVM_Task" | "CreateVM_Task"), _) if isinstance(result, Vm):
            made = _made(subject, was, result)
            return (subject, *made[1:]) if lab.state.denies("clone-event-is-of-the-new-vm") else made
        case "RegisterVM_Task", _ if isinstance(result, Vm):
            return result, "VmRegisteredEvent", None, {}
        case "ReconfigVM_Task", Vm():
            return subject, "VmReconfiguredEvent", None, {"configSpec": task.arguments["spec"]}
        case "Rename_Task", Vm():
            return subject, "VmRenamedEvent", None, {"oldName": was.name, "newName": subject.name}
        case "Destroy_Task", Vm():
            return subject, "VmRemovedEvent", was, {}
        case "MigrateVM_Task", Vm():
            return subject, "VmMigratedEvent", None, _source(was)
        case "RelocateVM_Task", Vm():
            return subject, "VmRelocatedEvent", None, _source(was)
        case "UpgradeVM_Task", Vm():
            return subject, "VmUpgradeCompleteEvent", None, {"version": f"vmx-{subject.hardware_version}"}
        case "ReconfigureComputeResource_Task", Cluster():
            words = _changes(task.arguments["spec"])
            return subject, "ClusterReconfiguredEvent", None, {"configChanges": words}
        case name, Vm() if name in _OF_POWER:
            return subject, _OF_POWER[name], None, {}
    return None


def _made(subject: Managed, was: Before, vm: Vm) -> _Told:
    """Log the creation of a VM: from nothing, from a VM, or from a template."""
    source = was.around.get("vm")
    if source is None:
        return vm, "VmCreatedEvent", None, {}
    if isinstance(subject, Vm) and subject.is_template:
        return vm, "VmDeployedEvent", None, {"srcTemplate": source}
    return vm, "VmClonedEvent", None, {"sourceVm": source}


def _source(was: Before) -> dict[str, Any]:
    return {"sourceHost": was.around["host"]}


def _changes(spec: Any) -> Any:
    """Say of which VMs a cluster's overrides were changed."""
    words = [
        f"configurationEx.{kind}[{change.info.key._moId if change.info else change.removeKey._moId}]"
        for kind in ("drsVmConfig", "dasVmConfig")
        for change in getattr(spec, f"{kind}Spec", None) or ()
    ]
    return vim.event.ChangesInfoEventArgument(modified="; ".join(words), added="", deleted="")


def _about(state: LabState, thing: Managed) -> Iterator[Managed]:
    """Yield an object and its parents, as far as events name them."""
    yield thing
    host = state.find(thing.host, Host) if isinstance(thing, Vm) else None
    if host is not None:
        yield host
    inside = host or thing
    cluster = state.find(inside.parent, Cluster) if isinstance(inside, Host) else None
    if cluster is not None:
        yield cluster
    datacenter = state.datacenter_of(thing)
    if datacenter is not None and datacenter is not thing:
        yield datacenter


def _argument(thing: Managed) -> tuple[str, Any]:
    for kind, (name, argument) in _ARGUMENTS.items():
        if isinstance(thing, kind):
            return name, argument(name=thing.name, **{name: reference(thing)})
    argument = vim.event.ManagedEntityEventArgument(name=thing.name, entity=reference(thing))
    return "entity", argument


def entities_of(state: LabState, wanted: Any) -> set[str]:
    """Return the moids that a filter by entity means."""
    top = wanted.entity._moId
    if wanted.recursion == "self":
        return {top}
    is_deep = wanted.recursion == "all"
    thing = state.objects.get(top)
    found = {one.moid for one in below(state, thing, recursive=is_deep)} if thing is not None else set()
    return found | {top} if is_deep else found


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


def event_shown(state: LabState, event: PastEvent) -> Any:
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
        vm = state.find(event.entities[0], VirtualMachine)
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
    record(lab, thing, event, by=by)
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
