"""Rendering of alarms: their definitions, and the entities on which they are triggered."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.inventory import Alarm, Managed

COPIED = (
    "name",
    "systemName",
    "description",
    "enabled",
    "expression",
    "action",
    "actionFrequency",
    "setting",
)


def _info(context: Context, thing: Alarm) -> Any:
    return vim.alarm.AlarmInfo(
        **{field: getattr(thing.spec, field) for field in COPIED},
        key=thing.moid,
        alarm=vim.alarm.Alarm(thing.moid),
        entity=reference(context.state.objects[thing.parent or ""]),
        lastModifiedTime=as_datetime(thing.modified),
        lastModifiedUser=thing.user,
        creationEventId=0,
    )


def triggered(context: Context, thing: Managed) -> list[Any]:
    """Render the alarms that are triggered on an entity itself."""
    return [
        vim.alarm.AlarmState(
            key=f"{alarm.moid}.{thing.moid}",
            entity=reference(thing),
            alarm=vim.alarm.Alarm(alarm.moid),
            overallStatus=alarm.triggered[thing.moid].status,
            time=as_datetime(alarm.triggered[thing.moid].since),
            acknowledged=False,
        )
        for alarm in (context.state.get(moid, Alarm) for moid in context.state.alarms)
        if thing.moid in alarm.triggered
    ]


ALARM: dict[str, Render] = {"info": _info}
ALARM_MANAGER: dict[str, Render] = {}
