"""Past tasks and events, read by a filter: at once, or through a collector.

A new collector is before the oldest entry, of tasks as of events. RewindCollector moves it there again,
ResetCollector after the newest. Events are returned in the order of their times. All of this is in the
descriptions of vim `HistoryCollector`.

LogUserEvent's description lists the accepted entities. Recalled are the fault for another entity, and the
text of `fullFormattedMessage` before the words.
"""

from __future__ import annotations

import math
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.estates.lies import SHORT_PAGE
from vgpu_cfg.lab.renderers.services import task_info
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.simulation.past_events import (
    PAGE_SIZE,
    EventCollector,
    event_shown,
    matching_events,
    record,
)
from vgpu_cfg.lab.simulation.tasks import TaskCollector, matching
from vgpu_cfg.lab.state.inventory import Cluster, Datacenter, Host, Managed, PastEvent, Task, VirtualMachine

MOST_COLLECTORS = 32
"""vCenter's default for `maxCollector`."""

MOST_ITEMS = 1000


@answers("TaskManager", "CreateCollectorForTasks")
def create_task_collector(context: Context, thing: Managed, *, filter: Any) -> Any:  # noqa: A002 - the API's name
    """Make a collector for the caller's session. Raises InvalidState where it has too many."""
    return vim.TaskHistoryCollector(_kept(context, TaskCollector, filter))


@answers("EventManager", "CreateCollectorForEvents")
def create_event_collector(context: Context, thing: Managed, *, filter: Any) -> Any:  # noqa: A002 - the API's name
    """Make a collector for the caller's session. Raises InvalidState where it has too many."""
    return vim.event.EventHistoryCollector(_kept(context, EventCollector, filter))


def _kept(context: Context, kind: type[TaskCollector | EventCollector], spec: Any) -> str:
    _check(context, spec)
    session = context.signed_in
    if sum(isinstance(item, kind) for item in session.objects.values()) >= MOST_COLLECTORS:
        raise refusals.wrong_state()
    made = kind(moid=session.new_moid(), name="", spec=spec)
    session.objects[made.moid] = made
    return made.moid


@answers("TaskHistoryCollector", "ReadNextTasks")
def read_next_tasks(context: Context, thing: TaskCollector, *, maxCount: int) -> list[Any]:
    """Go on towards newer tasks, oldest first."""
    newer = [task for task in matching(context.state, thing) if task.event_chain_id > thing.at]
    return _take_tasks(context, thing, newer, maxCount)


@answers("TaskHistoryCollector", "ReadPreviousTasks")
def read_previous_tasks(context: Context, thing: TaskCollector, *, maxCount: int) -> list[Any]:
    """Go on towards older tasks, newest first."""
    older = [task for task in matching(context.state, thing) if task.event_chain_id < thing.at]
    return _take_tasks(context, thing, older[::-1], maxCount)


@answers("HistoryCollector", "RewindCollector")
def rewind(context: Context, thing: TaskCollector | EventCollector) -> None:
    """Move to before the oldest task."""
    thing.at = 0


@answers("HistoryCollector", "ResetCollector")
def reset(context: Context, thing: TaskCollector | EventCollector) -> None:
    """Move to after the newest task."""
    thing.at = math.inf


@answers("HistoryCollector", "SetCollectorPageSize")
def set_page_size(context: Context, thing: TaskCollector | EventCollector, *, maxCount: int) -> None:
    """Set how many tasks `latestPage` has; 0 sets the default."""
    thing.page_size = _count(maxCount) or PAGE_SIZE


@answers("HistoryCollector", "DestroyCollector")
def destroy(context: Context, thing: TaskCollector | EventCollector) -> None:
    """Drop a collector."""
    context.signed_in.objects.pop(thing.moid, None)


def _take_tasks(context: Context, collector: TaskCollector, tasks: list[Task], most: int) -> list[Any]:
    taken = tasks[: _page_of(context, most)]
    if taken:
        collector.at = taken[-1].event_chain_id
    return [task_info(context, task) for task in taken]


def _page_of(context: Context, most: int) -> int:
    """Return the length of a page for which a client asks."""
    return min(_count(most), SHORT_PAGE) if context.state.denies("event-pages-of-1000") else _count(most)


def _count(most: int) -> int:
    if not 0 <= most <= MOST_ITEMS:
        raise refusals.bad_argument("maxCount")
    return most


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
        raise refusals.not_supported()
    _check(context, filter)
    shown = [event_shown(context.state, event) for event in matching_events(context.state, filter)]
    return shown[: filter.maxCount] if filter.maxCount else shown


@answers("EventHistoryCollector", "ReadNextEvents")
def read_next_events(context: Context, thing: EventCollector, *, maxCount: int) -> list[Any]:
    """Go on towards newer events, oldest first."""
    if context.state.denies("event-pages-go-forward"):
        thing.at = thing.at or math.inf
        return _take_events(context, thing, _older(context, thing), maxCount)
    return _take_events(context, thing, _newer(context, thing), maxCount)


@answers("EventHistoryCollector", "ReadPreviousEvents")
def read_previous_events(context: Context, thing: EventCollector, *, maxCount: int) -> list[Any]:
    """Go on towards older events, newest first."""
    if context.state.denies("event-collector-reads-backwards"):
        thing.at = 0 if thing.at == math.inf else thing.at
        return _take_events(context, thing, _newer(context, thing), maxCount)
    return _take_events(context, thing, _older(context, thing), maxCount)


def _newer(context: Context, thing: EventCollector) -> list[PastEvent]:
    return [event for event in matching_events(context.state, thing.spec) if event.key > thing.at]


def _older(context: Context, thing: EventCollector) -> list[PastEvent]:
    return [event for event in matching_events(context.state, thing.spec) if event.key < thing.at][::-1]


def _check(context: Context, spec: Any) -> None:
    if spec.entity is not None and spec.entity.entity._moId not in context.state.objects:
        raise object_gone(spec.entity.entity)


def _take_events(
    context: Context, collector: EventCollector, events: list[PastEvent], most: int
) -> list[Any]:
    taken = events[: _page_of(context, most)]
    if taken:
        collector.at = taken[-1].key
    return [event_shown(context.state, event) for event in taken]


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
