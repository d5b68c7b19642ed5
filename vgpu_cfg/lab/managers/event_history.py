"""What events there were, read by a filter (vim `EventManager.QueryEvents`): of VMs made, and clients' words.

Kept of VMs are the ends of CreateVM_Task and CloneVM_Task alone, with the VM. Whose event it is when a VM was
cloned (the new VM's), and that a template's clone tells VmDeployedEvent, is of the types' descriptions;
the order in which events are returned is recalled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.api.versions import NAMESPACE
from vgpu_cfg.lab.managers.user_events import found_user_events, passes, shown_user_event
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.simulation.task_history import entities_of
from vgpu_cfg.lab.state.inventory import Managed, VirtualMachine
from vgpu_cfg.lab.state.vm import PastEvent


@answers("EventManager", "QueryEvents")
def query_events(
    context: Context,
    thing: Managed,
    *,
    filter: Any,  # noqa: A002 - the API's name
    eventViewSpec: Any = None,
) -> list[Any]:
    """Return the events that a filter lets through, oldest first. Raises NotSupported for a view of them."""
    if eventViewSpec is not None:
        raise vmodl.fault.NotSupported(msg="The operation is not supported on the object.")
    shown = found_events(context, filter)
    return shown[: filter.maxCount] if filter.maxCount else shown


def found_events(context: Context, spec: Any) -> list[Any]:
    """Return every event that a filter lets through, oldest first."""
    entities = None
    if spec.entity is not None:
        if spec.entity.entity._moId not in context.state.objects:
            raise object_gone(spec.entity.entity)
        entities = entities_of(context.state, spec.entity)
    if spec.alarm is not None or spec.scheduledTask is not None or spec.tag:
        return []
    made = (
        _shown(context, vm, event)
        for vm, event in _all(context)
        if (entities is None or vm.moid in entities) and passes(event, spec, event.kind, event.chain_id)
    )
    logged = (shown_user_event(context, event) for event in found_user_events(context, spec, entities))
    return sorted([*made, *logged], key=lambda event: event.key)


def _all(context: Context) -> Iterator[tuple[VirtualMachine, PastEvent]]:
    for vm in context.state.all(VirtualMachine):
        for event in vm.events:
            yield vm, event


def _shown(context: Context, vm: VirtualMachine, event: PastEvent) -> Any:
    about: Any = vim.event.VmEventArgument
    made = VmomiSupport.GetWsdlType(NAMESPACE, event.kind)(
        key=event.key,
        chainId=event.chain_id,
        createdTime=as_datetime(event.at),
        userName=event.user,
        vm=about(name=vm.name, vm=reference(vm)),
        template=vm.is_template,
    )
    source = about(name=event.source_name, vm=vim.VirtualMachine(event.source)) if event.source else None
    if event.kind == "VmClonedEvent":
        made.sourceVm = source
    elif event.kind == "VmDeployedEvent":
        made.srcTemplate = source
    return made
