"""Collectors of events (vim `EventHistoryCollector`): a filter, read page by page towards newer or older.

Made, moved and dropped as those of tasks are. Recalled is that `latestPage` has the newest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.managers.event_history import found_events
from vgpu_cfg.lab.managers.task_history import count_of, refuse_too_many
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.simulation.task_history import PAGE_SIZE
from vgpu_cfg.lab.state.inventory import Managed


@dataclass(slots=True, kw_only=True)
class EventCollector(Service):
    """One collector. `at` is the key of the event that was read last."""

    kind: str = "EventHistoryCollector"
    spec: Any
    page_size: int = PAGE_SIZE
    at: float = 0

    def newest(self, context: Context) -> list[Any]:
        """Return the page of newest events, newest first."""
        return found_events(context, self.spec)[-self.page_size :][::-1]


@answers("EventManager", "CreateCollectorForEvents")
def create_collector(context: Context, thing: Managed, *, filter: Any) -> Any:  # noqa: A002 - the API's name
    """Make a collector for the caller's session. Raises InvalidState where it has too many."""
    session = context.session
    if session is None:
        return None
    if filter.entity is not None and filter.entity.entity._moId not in context.state.objects:
        raise object_gone(filter.entity.entity)
    refuse_too_many(session, EventCollector)
    made = EventCollector(moid=session.new_moid(), name="", spec=filter)
    session.objects[made.moid] = made
    return vim.event.EventHistoryCollector(made.moid)


@answers("EventHistoryCollector", "ReadNextEvents")
def read_next(context: Context, thing: EventCollector, *, maxCount: int) -> list[Any]:
    """Go on towards newer events, oldest first."""
    newer = [event for event in found_events(context, thing.spec) if event.key > thing.at]
    return _take(thing, newer[: count_of(maxCount)])


@answers("EventHistoryCollector", "ReadPreviousEvents")
def read_previous(context: Context, thing: EventCollector, *, maxCount: int) -> list[Any]:
    """Go on towards older events, newest first."""
    older = [event for event in found_events(context, thing.spec) if event.key < thing.at]
    return _take(thing, older[::-1][: count_of(maxCount)])


def _take(collector: EventCollector, events: list[Any]) -> list[Any]:
    if events:
        collector.at = events[-1].key
    return events
