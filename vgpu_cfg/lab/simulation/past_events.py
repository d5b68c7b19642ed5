"""The events that a vCenter keeps: changes to a VM, a host or a cluster by a task or a call, and their users.

Kinds and fields are those of vim `Event` and the types below it. That an event of a reconfiguration has the
whole ConfigSpec is LucD's finding (lucd.info, "Events - Part 3"). The text of `configChanges` for a cluster
is assumed: the one that a vCenter writes there is in no document that was found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.simulation.bends import is_logged
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Cluster, Datacenter, Host, LabState, Managed, PastEvent, Task
from vgpu_cfg.lab.state.inventory import VirtualMachine as Vm

KEPT_EVENTS = 2000
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
