"""Past tasks: collectors that read them by a filter, oldest or newest first.

A new collector is before the oldest task; RewindCollector moves it there again, ResetCollector after the
newest (descriptions of vim `HistoryCollector`).
"""

from __future__ import annotations

import math
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.estates.lies import SHORT_PAGE
from vgpu_cfg.lab.renderers.task import task_info
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.event_history import EventCollector
from vgpu_cfg.lab.simulation.operations import answers
from vgpu_cfg.lab.simulation.tasks import PAGE_SIZE, TaskCollector, matching
from vgpu_cfg.lab.state.inventory import Managed, Task

MOST_COLLECTORS = 32
"""vCenter's default for `maxCollector`."""

MOST_ITEMS = 1000


@answers("TaskManager", "CreateCollectorForTasks")
def create_collector(context: Context, thing: Managed, *, filter: Any) -> Any:  # noqa: A002 - the API's name
    """Make a collector for the caller's session. Raises InvalidState where it has too many."""
    session = context.session
    if session is None:
        return None
    if filter.entity is not None and filter.entity.entity._moId not in context.state.objects:
        raise object_gone(filter.entity.entity)
    if sum(isinstance(item, TaskCollector) for item in session.objects.values()) >= MOST_COLLECTORS:
        raise vim.fault.InvalidState(msg="The operation is not allowed in the current state.")
    made = TaskCollector(moid=session.new_moid(), name="", spec=filter)
    session.objects[made.moid] = made
    return vim.TaskHistoryCollector(made.moid)


@answers("TaskHistoryCollector", "ReadNextTasks")
def read_next(context: Context, thing: TaskCollector, *, maxCount: int) -> list[Any]:
    """Go on towards newer tasks, oldest first."""
    newer = [task for task in matching(context.state, thing) if task.event_chain_id > thing.at]
    return _take(context, thing, newer, maxCount)


@answers("TaskHistoryCollector", "ReadPreviousTasks")
def read_previous(context: Context, thing: TaskCollector, *, maxCount: int) -> list[Any]:
    """Go on towards older tasks, newest first."""
    older = [task for task in matching(context.state, thing) if task.event_chain_id < thing.at]
    return _take(context, thing, older[::-1], maxCount)


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
    if context.session is not None:
        context.session.objects.pop(thing.moid, None)


def _take(context: Context, collector: TaskCollector, tasks: list[Task], most: int) -> list[Any]:
    taken = tasks[: page_of(context, _count(most))]
    if taken:
        collector.at = taken[-1].event_chain_id
    return [task_info(context, task) for task in taken]


def page_of(context: Context, most: int) -> int:
    """Return the length of a page for which a client asks."""
    return min(most, SHORT_PAGE) if context.state.denies("event-pages-of-1000") else most


def _count(most: int) -> int:
    if not 0 <= most <= MOST_ITEMS:
        raise refusals.bad_argument("maxCount")
    return most
