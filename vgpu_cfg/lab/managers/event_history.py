"""Past events, read by a filter: at once (vim `EventManager.QueryEvents`), or through a collector.

The order in which events are returned is that of `HistoryCollector`'s description: by their time. A collector
begins before the oldest.

Events of clients by LogUserEvent: kept as a GeneralUserEvent of the entity.

The method's description lists the accepted entities. Recalled are the fault for another entity, and the text
of `fullFormattedMessage` before the words.
"""

from __future__ import annotations

import math
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.managers.task_history import MOST_COLLECTORS, MOST_ITEMS, page_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.event_history import EventCollector, event_shown, matching_events
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.simulation.past_events import record
from vgpu_cfg.lab.state.inventory import Cluster, Datacenter, Host, Managed, PastEvent, VirtualMachine

_TAKING = (Datacenter, VirtualMachine, Host, Cluster)


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
    _check(context, filter)
    shown = [event_shown(context, event) for event in matching_events(context.state, filter)]
    return shown[: filter.maxCount] if filter.maxCount else shown


@answers("EventManager", "CreateCollectorForEvents")
def create_collector(context: Context, thing: Managed, *, filter: Any) -> Any:  # noqa: A002 - the API's name
    """Make a collector for the caller's session. Raises InvalidState where it has too many."""
    session = context.session
    if session is None:
        return None
    _check(context, filter)
    if sum(isinstance(item, EventCollector) for item in session.objects.values()) >= MOST_COLLECTORS:
        raise vim.fault.InvalidState(msg="The operation is not allowed in the current state.")
    made = EventCollector(moid=session.new_moid(), name="", spec=filter)
    session.objects[made.moid] = made
    return vim.event.EventHistoryCollector(made.moid)


@answers("EventHistoryCollector", "ReadNextEvents")
def read_next(context: Context, thing: EventCollector, *, maxCount: int) -> list[Any]:
    """Go on towards newer events, oldest first."""
    if context.state.denies("event-pages-go-forward"):
        thing.at = thing.at or math.inf
        return _take(context, thing, _older(context, thing), maxCount)
    return _take(context, thing, _newer(context, thing), maxCount)


@answers("EventHistoryCollector", "ReadPreviousEvents")
def read_previous(context: Context, thing: EventCollector, *, maxCount: int) -> list[Any]:
    """Go on towards older events, newest first."""
    if context.state.denies("event-collector-reads-backwards"):
        thing.at = 0 if thing.at == math.inf else thing.at
        return _take(context, thing, _newer(context, thing), maxCount)
    return _take(context, thing, _older(context, thing), maxCount)


def _newer(context: Context, thing: EventCollector) -> list[PastEvent]:
    return [event for event in matching_events(context.state, thing.spec) if event.key > thing.at]


def _older(context: Context, thing: EventCollector) -> list[PastEvent]:
    return [event for event in matching_events(context.state, thing.spec) if event.key < thing.at][::-1]


def _check(context: Context, spec: Any) -> None:
    if spec.entity is not None and spec.entity.entity._moId not in context.state.objects:
        raise object_gone(spec.entity.entity)


def _take(context: Context, collector: EventCollector, events: list[PastEvent], most: int) -> list[Any]:
    if not 0 <= most <= MOST_ITEMS:
        raise refusals.bad_argument("maxCount")
    taken = events[: page_of(context, most)]
    if taken:
        collector.at = taken[-1].key
    return [event_shown(context, event) for event in taken]


@answers("EventManager", "LogUserEvent")
def log_user_event(context: Context, thing: Managed, *, entity: Any, msg: str) -> None:
    """Keep the words of a client. Raises InvalidArgument for an entity that takes none."""
    found = context.state.objects.get(entity._moId)
    if found is None:
        raise refusals.object_gone(entity)
    if not isinstance(found, _TAKING) and found.moid != context.state.root:
        raise refusals.bad_argument("entity")
    record(
        context.lab,
        found,
        "GeneralUserEvent",
        message=msg,
        fullFormattedMessage=f"User logged event: {msg}",
        entity=vim.event.ManagedEntityEventArgument(name=found.name, entity=reference(found)),
    )
