"""What clients log by LogUserEvent: kept with who did it and when, and read as GeneralUserEvents.

Which entities take one is of the method's description. Which fault another one meets is recalled, and so is
what `fullFormattedMessage` says before the words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.api.versions import NAMESPACE
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Host,
    Managed,
    UserEvent,
    VirtualMachine,
)

KIND = "GeneralUserEvent"
LOG_EVENT = "Global.LogEvent"
_TAKING = (Datacenter, VirtualMachine, Host, Cluster)


class Happened(Protocol):
    """What a filter asks of an event."""

    @property
    def at(self) -> float:
        """When."""
        ...

    @property
    def user(self) -> str:
        """By whom."""
        ...


@answers("EventManager", "LogUserEvent")
def log_user_event(context: Context, thing: Managed, *, entity: Any, msg: str) -> None:
    """Keep the words of a client. Raises InvalidArgument for an entity that takes none."""
    context.lab.faults.check_privileges(entity, [LOG_EVENT])
    state = context.state
    found = state.objects.get(entity._moId)
    if found is None:
        raise refusals.object_gone(entity)
    if not isinstance(found, _TAKING) and found.moid != state.root:
        raise refusals.bad_argument("entity")
    state.last_number += 1
    state.user_events.append(
        UserEvent(state.last_number, context.lab.clock.now(), context.lab.user, found.moid, msg)
    )
    state.revision += 1


def found_user_events(context: Context, spec: Any, entities: set[str] | None) -> Iterator[UserEvent]:
    """Yield those at some entities that a filter lets through, oldest first."""
    for event in context.state.user_events:
        if (entities is None or event.entity in entities) and passes(event, spec, KIND, event.key, "user"):
            yield event


def passes(event: Happened, spec: Any, kind: str, chain_id: int, category: str = "info") -> bool:
    """Whether a filter lets an event of a kind (its wsdl type) through, but for its entity."""
    wsdl_type = VmomiSupport.GetWsdlType(NAMESPACE, kind)
    at = as_datetime(event.at)
    users = spec.userName
    return (
        (not spec.eventTypeId or f"vim.event.{kind}" in spec.eventTypeId)
        and (not spec.type or any(issubclass(wsdl_type, wanted) for wanted in spec.type))
        and (not spec.eventChainId or chain_id == spec.eventChainId)
        and (not spec.category or category in spec.category)
        and (users is None or (not users.systemUser and (not users.userList or event.user in users.userList)))
        and (spec.time is None or spec.time.beginTime is None or at >= spec.time.beginTime)
        and (spec.time is None or spec.time.endTime is None or at <= spec.time.endTime)
    )


def shown_user_event(context: Context, event: UserEvent) -> Any:
    """Return an event as clients see it."""
    thing = context.state.objects.get(event.entity)
    about = None
    if thing is not None:
        about = vim.event.ManagedEntityEventArgument(name=thing.name, entity=reference(thing))
    return vim.event.GeneralUserEvent(
        key=event.key,
        chainId=event.key,
        createdTime=as_datetime(event.at),
        userName=event.user,
        message=event.message,
        fullFormattedMessage=f"User logged event: {event.message}",
        entity=about,
    )
