"""Rendering of tasks (vim `TaskInfo`)."""

from __future__ import annotations

from functools import cache
from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.lab.api.references import reference, vim_class
from vgpu_cfg.lab.api.versions import NAMESPACE
from vgpu_cfg.lab.renderers.entity import attribute, constant, itself
from vgpu_cfg.lab.renderers.table import Render, Table
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import Task

GONE_TYPES = {"vm": "VirtualMachine", "group": "Folder", "resgroup": "ResourcePool"}
"""The prefix of a removed object's moid → its type."""


def _method(_context: Context, thing: Task) -> Any:
    """Return pyvmomi's method: the property is one, and travels as its name."""
    try:
        return VmomiSupport.GetWsdlMethod(NAMESPACE, thing.name)
    except KeyError:
        return None


def _moment(seconds: float | None) -> Any:
    return None if seconds is None else as_datetime(seconds)


def _result(context: Context, thing: Task) -> Any:
    if isinstance(thing.result, str) and thing.result in context.state.objects:
        return reference(context.state.objects[thing.result])
    return thing.result


def _entity(context: Context, thing: Task) -> Any:
    """Return the entity of the task, also if it is gone: a removed object keeps its reference."""
    if thing.entity in context.state.objects:
        return reference(context.state.objects[thing.entity])
    kind = GONE_TYPES.get(thing.entity.partition("-")[0])
    return vim_class(kind)(thing.entity) if kind is not None else None


TASK: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    "info.key": attribute(lambda thing: thing.moid),
    "info.task": itself,
    "info.description": attribute(
        lambda thing: vmodl.LocalizableMessage(key=thing.description_id, message=thing.description_id)
    ),
    "info.name": _method,
    "info.descriptionId": attribute(lambda thing: thing.description_id),
    "info.entity": _entity,
    "info.entityName": attribute(lambda thing: thing.entity_name),
    "info.locked": constant([]),
    "info.state": attribute(lambda thing: thing.state),
    "info.cancelled": attribute(lambda thing: thing.cancelled),
    "info.cancelable": attribute(lambda thing: thing.cancelable),
    "info.error": attribute(lambda thing: thing.fault),
    "info.result": _result,
    "info.progress": attribute(lambda thing: thing.progress if thing.state == "running" else None),
    "info.reason": attribute(lambda thing: vim.TaskReasonUser(userName=thing.user)),
    "info.queueTime": attribute(lambda thing: _moment(thing.queued_at)),
    "info.startTime": attribute(lambda thing: _moment(thing.started_at)),
    "info.completeTime": attribute(lambda thing: _moment(thing.ended_at)),
    "info.eventChainId": attribute(lambda thing: thing.event_chain_id),
}
"""`progress` is set while the task runs and unset when it is over, as its description says."""


@cache
def _table() -> Table:
    return Table(vim.Task, TASK)


def task_info(context: Context, task: Task) -> Any:
    """Render all properties of a task."""
    return _table().reader("info", context.version).read(context, task)
