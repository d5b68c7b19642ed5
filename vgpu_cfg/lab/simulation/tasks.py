"""Tasks: those under way, their ends, the functions that do their work, and the filtering of past ones.

A task's work is done, and judged, at the moment it is due: two power-ons that compete for
one GPU are decided in the order of their due times. Due times are part of the state.

Of past tasks it is recalled that `latestPage` has the newest first, and its default length.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import Service, vim_class
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import bends, past_events
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.past_events import PAGE_SIZE, entities_of
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import LabState, Managed, Task, VirtualMachine
from vgpu_cfg.lab.state.vm import Snapshot

Work = Callable[..., Any]

WORK: dict[tuple[str, str], Work] = {}
"""(wsdl type, method) → the function called when the task is due; filled by `operations.registry`."""

EXCLUSIVE = frozenset(
    {
        "PowerOnVM_Task",
        "PowerOffVM_Task",
        "ReconfigVM_Task",
        "Destroy_Task",
        "UpgradeVM_Task",
        "CreateSnapshot_Task",
        "RemoveAllSnapshots_Task",
        "RemoveSnapshot_Task",
        "MigrateVM_Task",
        "RelocateVM_Task",
    }
)
"""Methods that refuse to run at the same time on one VM."""

ENDED: dict[tuple[str, str], Work] = {}
"""(wsdl type, method) → the function called after such a task, with any result: `ended(lab, subject)`."""

TASK = "_Task"
"""The end of the names of methods that start one."""
PROGRESS_STEPS = 4
KEPT_TASKS = 2000


class Blocked(Exception):
    """A task's work cannot be done yet: it is tried again whenever something changed.

    It ends in `fault` where that has not come `timeout` seconds after the task began; 0 waits for ever.
    """

    def __init__(self, timeout: float, fault: Exception) -> None:
        super().__init__("the task waits")
        self.timeout = timeout
        self.fault = fault


def start(
    lab: Simulation,
    subject: Managed,
    method: str,
    *,
    work: str,
    description_id: str,
    arguments: dict[str, Any],
    seconds: float,
    cancelable: bool = False,
) -> Task:
    """Begin a task and return it at once."""
    state, now = lab.state, lab.clock.now()
    # A snapshot is no entity of the inventory: a task on it is shown on its VM.
    entity = state.objects[subject.parent] if isinstance(subject, Snapshot) and subject.parent else subject
    task = Task(
        moid=state.new_moid("task"),
        name=method,
        subject=subject.moid,
        work=work,
        entity=entity.moid,
        entity_name=entity.name,
        description_id=description_id,
        event_chain_id=state.last_number,
        cancelable=cancelable,
        queued_at=now,
        due=seconds,
        user=lab.user,
        arguments=arguments,
    )
    state.add(task)
    state.tasks.append(task.moid)
    state.open_tasks[task.moid] = None
    lab.counters["tasks"] += 1
    _run_queued(lab)
    _forget_old(lab)
    return task


def cancel(lab: Simulation, task: Task) -> None:
    """Cancel a task that can be. Raises NotSupported, or InvalidState where it is over."""
    if task.state in ("success", "error"):
        raise refusals.wrong_state()
    if not task.cancelable:
        raise refusals.not_supported()
    task.cancelled = True
    _end(lab, task, fault=vmodl.fault.RequestCanceled(msg="The task was canceled by a user."))


def forget_all(lab: Simulation) -> None:
    """Forget all tasks, without finishing them: a vCenter may be so after its restart."""
    for task in _open(lab):
        _end(lab, task, fault=vmodl.fault.RequestCanceled(msg="vCenter was restarted."))
    for moid in lab.state.tasks:
        lab.state.remove(lab.state.objects[moid])
    lab.state.tasks.clear()


def settle(lab: Simulation) -> None:
    """Do all that is due, in the order of due times, and update the progress of the rest."""
    now = lab.clock.now()
    while True:
        due = [task for task in _open(lab) if task.state == "running" and _is_due(lab, task, now)]
        if not due:
            break
        _finish(lab, min(due, key=lambda task: (task.due, task.event_chain_id)))
        _run_queued(lab)
    for task in _open(lab):
        if task.state != "running" or task.is_blocked:
            continue
        if (progress := _progress(task, now)) != task.progress:
            task.progress = progress
            lab.state.touch(task)


def next_event(lab: Simulation) -> float | None:
    """Return when a task ends or makes progress next; None while nothing runs."""
    moments = [_next_moment(task) for task in _open(lab) if task.state == "running"]
    return min((moment for moment in moments if moment != math.inf), default=None)


def _is_due(lab: Simulation, task: Task, now: float) -> bool:
    """Whether a task ends now, or is to be tried again because something changed since it was blocked."""
    return task.due <= now or (task.is_blocked and lab.tried_at.get(task.moid) != lab.state.revision)


def _open(lab: Simulation) -> list[Task]:
    return [lab.state.get(moid, Task) for moid in lab.state.open_tasks]


def _run_queued(lab: Simulation) -> None:
    running = sum(task.state == "running" for task in _open(lab))
    for task in _open(lab):
        if task.state != "queued":
            continue
        if lab.task_limit is not None and running >= lab.task_limit:
            break
        running += 1
        now = lab.clock.now()
        task.state, task.started_at, task.progress = "running", now, 0
        task.due = now + lab.clock.scaled(task.due * lab.task_seconds)
        lab.state.touch(task)
        if (other := _rival(lab, task)) is not None:
            in_progress = vim.fault.TaskInProgress(
                task=vim.Task(other.moid),
                msg="The operation is not allowed because another task is already in progress.",
            )
            _end(lab, task, fault=in_progress)


def _rival(lab: Simulation, task: Task) -> Task | None:
    if task.name not in EXCLUSIVE or lab.state.find(task.entity, VirtualMachine) is None:
        return None
    return next(
        (
            other
            for other in _open(lab)
            if other.entity == task.entity
            and other.state == "running"
            and other is not task
            and other.name in EXCLUSIVE
        ),
        None,
    )


def _finish(lab: Simulation, task: Task) -> None:
    subject = lab.state.objects.get(task.subject)
    if subject is None:
        _end(lab, task, fault=object_gone(vim_class(task.work)(task.subject)))
        return
    scripted = lab.faults.on_task(task.name)
    if scripted is not None:
        _end(lab, task, fault=scripted.make())
        return
    entity = lab.state.objects.get(task.entity, subject)
    was = past_events.before(lab, entity)
    lab.cause = f"{task.name} {task.entity_name}"
    try:
        bends.refuse(lab.state, task.name, subject, task.arguments)
        result = WORK[task.work, task.name](lab, subject, **task.arguments)
    except Blocked as wait:
        _block(lab, task, wait)
    except vmodl.MethodFault as fault:
        _end(lab, task, fault=bends.named(lab.state, task.name, fault))
    except Exception as error:  # noqa: BLE001 - a mistake of the lab's ends its task, as vpxd's own do
        reason = f"{type(error).__name__}: {error}"
        _end(
            lab,
            task,
            fault=vmodl.fault.SystemError(reason=reason, msg=f"A general system error occurred: {reason}"),
        )
    else:
        past_events.record_task(lab, task, entity, was, result)
        _end(lab, task, result=result.moid if isinstance(result, Managed) else result)
    finally:
        lab.cause = ""


def _block(lab: Simulation, task: Task, wait: Blocked) -> None:
    if task.is_blocked and task.due <= lab.clock.now():
        _end(lab, task, fault=wait.fault)
        return
    if not task.is_blocked:
        task.is_blocked = True
        begun = task.started_at or 0.0
        task.due = max(lab.clock.now(), begun + lab.clock.scaled(wait.timeout)) if wait.timeout else math.inf
        lab.state.touch(task)
    lab.tried_at[task.moid] = lab.state.revision


def _end(lab: Simulation, task: Task, *, result: Any = None, fault: Any = None) -> None:
    task.state = "success" if fault is None else "error"
    task.result, task.fault = result, fault
    task.progress = 100 if fault is None else task.progress
    task.ended_at = max(task.started_at or 0.0, min(lab.clock.now(), task.due))
    task.arguments = {}
    task.is_blocked = False
    lab.tried_at.pop(task.moid, None)
    del lab.state.open_tasks[task.moid]
    lab.state.touch(task)
    ended = ENDED.get((task.work, task.name))
    subject = lab.state.objects.get(task.subject)
    if ended is not None and subject is not None:
        ended(lab, subject)


def _progress(task: Task, now: float) -> int:
    begun = task.started_at or 0.0
    share = (now - begun) / (task.due - begun) if task.due > begun else 1.0
    return min(99, int(share * PROGRESS_STEPS) * 100 // PROGRESS_STEPS)


def _next_moment(task: Task) -> float:
    if task.is_blocked:
        return task.due
    begun, step = task.started_at or 0.0, (task.due - (task.started_at or 0.0)) / PROGRESS_STEPS
    if step <= 0:
        return task.due
    done = math.ceil((task.progress or 0) * PROGRESS_STEPS / 100)
    return task.due if done + 1 >= PROGRESS_STEPS else begun + (done + 1) * step


def _forget_old(lab: Simulation) -> None:
    state = lab.state
    if len(state.tasks) <= KEPT_TASKS:
        return
    for moid in [moid for moid in state.tasks if moid not in state.open_tasks][
        : len(state.tasks) - KEPT_TASKS
    ]:
        state.tasks.remove(moid)
        state.remove(state.objects[moid])


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
