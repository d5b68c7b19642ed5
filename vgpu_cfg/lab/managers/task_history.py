"""What tasks there were: collectors that read them by a filter, oldest or newest first.

A new collector stands before the oldest task; RewindCollector takes it there again, ResetCollector
behind the newest (descriptions of vim `HistoryCollector`). Recalled is that `latestPage` has the newest
first, and how long it is unless somebody says so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.clock import as_datetime
from vgpu_cfg.lab.collector.select import object_gone
from vgpu_cfg.lab.collector.views import children_of
from vgpu_cfg.lab.managers.methods import answers
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state import Managed, Task

MOST_COLLECTORS = 32
"""What vCenter's `maxCollector` says by default."""

MOST_ITEMS = 1000
PAGE_SIZE = 10


@dataclass(slots=True, kw_only=True)
class TaskCollector(Service):
    """One collector. `at` is the event chain id of the task that was read last."""

    kind: str = "TaskHistoryCollector"
    spec: Any
    page_size: int = PAGE_SIZE
    at: float = 0


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
    newer = [task for task in _matching(context, thing) if task.event_chain_id > thing.at]
    return _take(context, thing, newer, maxCount)


@answers("TaskHistoryCollector", "ReadPreviousTasks")
def read_previous(context: Context, thing: TaskCollector, *, maxCount: int) -> list[Any]:
    """Go on towards older tasks, newest first."""
    older = [task for task in _matching(context, thing) if task.event_chain_id < thing.at]
    return _take(context, thing, older[::-1], maxCount)


@answers("HistoryCollector", "RewindCollector")
def rewind(context: Context, thing: TaskCollector) -> None:
    """Stand before the oldest task."""
    thing.at = 0


@answers("HistoryCollector", "ResetCollector")
def reset(context: Context, thing: TaskCollector) -> None:
    """Stand behind the newest task."""
    thing.at = math.inf


@answers("HistoryCollector", "SetCollectorPageSize")
def set_page_size(context: Context, thing: TaskCollector, *, maxCount: int) -> None:
    """Set how many tasks `latestPage` has; 0 sets the default."""
    thing.page_size = _count(maxCount) or PAGE_SIZE


@answers("HistoryCollector", "DestroyCollector")
def destroy(context: Context, thing: TaskCollector) -> None:
    """Drop a collector."""
    if context.session is not None:
        context.session.objects.pop(thing.moid, None)


def latest_page(context: Context, thing: TaskCollector) -> list[Any]:
    """Render the newest tasks, newest first."""
    newest = list(_matching(context, thing))[-thing.page_size :]
    return [_info(context, task) for task in reversed(newest)]


def _take(context: Context, collector: TaskCollector, tasks: list[Task], most: int) -> list[Any]:
    taken = tasks[: _count(most)]
    if taken:
        collector.at = taken[-1].event_chain_id
    return [_info(context, task) for task in taken]


def _count(most: int) -> int:
    if not 0 <= most <= MOST_ITEMS:
        raise refusals.bad_argument("maxCount")
    return most


def _info(context: Context, task: Task) -> Any:
    """Render a task. Imported late: the tables stand on the managers."""
    from vgpu_cfg.lab.renderers.tables import table_of

    return table_of("Task").reader("info", context.version).read(context, task)


def _matching(context: Context, collector: TaskCollector) -> Iterator[Task]:
    """Yield the tasks that a filter lets through, oldest first."""
    spec, state = collector.spec, context.state
    entities = entities_of(context, spec.entity) if spec.entity is not None else None
    has_none = (*spec.activationId, *spec.tag, *spec.parentTaskKey, *spec.rootTaskKey)
    if has_none or spec.alarm is not None or spec.scheduledTask is not None:
        return
    for moid in state.tasks:
        task = state.get(moid, Task)
        if (
            (entities is None or task.entity in entities)
            and (not spec.state or task.state in spec.state)
            and (not spec.eventChainId or task.event_chain_id in spec.eventChainId)
            and _is_of_user(task, spec.userName)
            and _is_in_time(task, spec.time)
        ):
            yield task


def entities_of(context: Context, wanted: Any) -> set[str]:
    """Return the moids that a filter by entity means."""
    top = wanted.entity._moId
    if wanted.recursion == "self":
        return {top}
    found: set[str] = set()
    thing = context.state.objects.get(top)
    left = children_of(thing) if thing is not None else []
    while left:
        moid = left.pop()
        below = context.state.objects.get(moid)
        if below is None or moid in found:
            continue
        found.add(moid)
        if wanted.recursion == "all":
            left += children_of(below)
    return found | {top} if wanted.recursion == "all" else found


def _is_of_user(task: Task, wanted: Any) -> bool:
    if wanted is None:
        return True
    return not wanted.systemUser and (not wanted.userList or task.user in wanted.userList)


def _is_in_time(task: Task, wanted: Any) -> bool:
    if wanted is None:
        return True
    moments = {
        "queuedTime": task.queued_at,
        "startedTime": task.started_at,
        "completedTime": task.ended_at,
    }
    moment = moments[wanted.timeType]
    if moment is None:
        return False
    at = as_datetime(moment)
    return (wanted.beginTime is None or at >= wanted.beginTime) and (
        wanted.endTime is None or at <= wanted.endTime
    )
