"""Find a task again whose moid never came: by its entity, method, user and time.

vCenter's list of recent tasks holds those that run, and those that ended in the last ten minutes, 200 at most
(vSphere API reference, TaskManager.recentTask). Moments are vCenter's own. Unproven: that a user is spelled
alike in a session and in a task's reason, and that a restarted vCenter still lists the tasks that it had
begun.

Belief: recent-tasks, task-reason-spells-the-account, tasks-and-restarts.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from pyVmomi import vim, vmodl

SLACK = timedelta(seconds=5)
"""By so much a task may seem older than its request: answers take time, and clocks are set."""

_COLLECTOR = vmodl.query.PropertyCollector
_STATE = vim.TaskInfo.State


def find_task(
    content: Any, subject: Any, method: str, user: str, age: timedelta, known: Collection[str]
) -> Any | None:
    """Return the oldest task of a method on an object that was begun at most `age` ago, None where none was.

    `known` are the moids of tasks whose request was answered.
    """
    since = vim.ServiceInstance("ServiceInstance", subject._stub).CurrentTime() - age - SLACK
    found = [
        info
        for info in _recent(content)
        if info.entity is not None
        and info.entity._moId == subject._moId
        and _method_of(info) == method
        and info.queueTime >= since
        and info.key not in known
        and info.task._moId not in known
        and _may_be_of(info.reason, user)
    ]
    return min(found, key=lambda info: info.queueTime).task if found else None


def running_tasks(content: Any, user: str) -> tuple[str, ...]:
    """Name the tasks that an account has begun and that go on; one round trip."""
    return tuple(
        f"{_method_of(info).removesuffix('_Task')} of {info.entityName}"
        for info in _recent(content)
        if info.state in (_STATE.queued, _STATE.running) and _may_be_of(info.reason, user)
    )


def user_of(content: Any, task: str) -> str | None:
    """Return the account in a recent task's reason, "" for another reason; None for an unlisted task."""
    found = (info.reason for info in _recent(content) if info.task._moId == task)
    return next((str(getattr(reason, "userName", "")) for reason in found), None)


def _recent(content: Any) -> list[Any]:
    """Read vCenter's recent tasks, in one round trip."""
    manager = content.taskManager
    if manager is None:
        return []
    through = _COLLECTOR.TraversalSpec(name="recent", type=vim.TaskManager, path="recentTask", skip=False)
    spec = _COLLECTOR.FilterSpec(
        propSet=[_COLLECTOR.PropertySpec(type=vim.Task, all=False, pathSet=["info"])],
        objectSet=[_COLLECTOR.ObjectSpec(obj=manager, skip=True, selectSet=[through])],
        reportMissingObjectsInResults=True,
    )
    page = content.propertyCollector.RetrievePropertiesEx([spec], _COLLECTOR.RetrieveOptions())
    return [value.val for found in (page.objects if page else ()) for value in found.propSet or ()]


def _method_of(info: Any) -> str:
    """Return the name on the wire of the method that began a task."""
    return str(getattr(getattr(info.name, "info", None), "wsdlName", info.name))


def _may_be_of(reason: Any, user: str) -> bool:
    """Whether a task may have been begun by this account; alarms and schedules are others."""
    match reason:
        case vim.TaskReasonUser():
            return not user or reason.userName.casefold() == user.casefold()
        case vim.TaskReasonAlarm() | vim.TaskReasonSchedule():
            return False
        case _:
            return True
