"""Which of the tasks that there were a filter lets through, and the newest of them.

Recalled is that `latestPage` has the newest first, and how long it is unless somebody says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.state.inventory import LabState, Task
from vgpu_cfg.lab.state.tree import children_of

PAGE_SIZE = 10


@dataclass(slots=True, kw_only=True)
class TaskCollector(Service):
    """One collector. `at` is the event chain id of the task that was read last."""

    kind: str = "TaskHistoryCollector"
    spec: Any
    page_size: int = PAGE_SIZE
    at: float = 0


def newest(state: LabState, collector: TaskCollector) -> list[Task]:
    """Return the page of newest tasks, newest first."""
    return list(matching(state, collector))[-collector.page_size :][::-1]


def matching(state: LabState, collector: TaskCollector) -> Iterator[Task]:
    """Yield the tasks that a filter lets through, oldest first."""
    spec = collector.spec
    entities = entities_of(state, spec.entity) if spec.entity is not None else None
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


def entities_of(state: LabState, wanted: Any) -> set[str]:
    """Return the moids that a filter by entity means."""
    top = wanted.entity._moId
    if wanted.recursion == "self":
        return {top}
    found: set[str] = set()
    thing = state.objects.get(top)
    left = children_of(thing) if thing is not None else []
    while left:
        moid = left.pop()
        below = state.objects.get(moid)
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
