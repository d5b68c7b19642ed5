"""The common properties of every inventory object (vim `ManagedEntity`), custom attributes and alarms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import reference, vim_class, wire_type
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import Context, reference_to
from vgpu_cfg.lab.state.inventory import Alarm, LabState, Managed, Task
from vgpu_cfg.lab.state.permissions import roles_on
from vgpu_cfg.lab.state.roles import ADMIN, LESSENED, Permission

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
            acknowledged=alarm.triggered[thing.moid].acknowledged,
        )
        for alarm in (context.state.get(moid, Alarm) for moid in context.state.alarms)
        if thing.moid in alarm.triggered
    ]


ALARM: dict[str, Render] = {"info": _info}
ALARM_MANAGER: dict[str, Render] = {}


MIB = 1024 * 1024
RECENT_SECONDS = 600.0
"""How long a task that ended is recent: a number of the lab's own, as is how many are."""
RECENT_TASKS = 200
ADMINISTRATOR_GROUP = "VSPHERE.LOCAL\\Administrators"


def constant(value: Any) -> Render:
    """Return a renderer of a constant value."""
    return lambda _context, _thing: value


def attribute(read: Callable[[Any], Any]) -> Render:
    """Return a renderer that needs nothing but the object."""
    return lambda _context, thing: read(thing)


def itself(_context: Context, thing: Managed) -> Any:
    """Render an object's own reference."""
    return reference(thing)


def under(prefix: str, renderers: Mapping[str, Render]) -> dict[str, Render]:
    """Return the renderers with a prefix before their paths: a summary repeats other properties."""
    return {f"{prefix}.{path}": render for path, render in renderers.items()}


def vim_type(wsdl_name: str | None) -> Any:
    """Return the class of a WSDL name in the state."""
    return vim_class(wsdl_name) if wsdl_name else None


def permissions_on(context: Context, moid: str) -> list[Any]:
    """Render the permissions that are given on an entity itself."""
    thing = context.state.objects.get(moid)
    if thing is None:
        return []
    own = [one for one in context.state.permissions if one.entity == moid]
    if thing.moid == context.state.root:
        own.insert(0, Permission(moid, ADMINISTRATOR_GROUP, ADMIN, is_group=True))
    return [
        vim.AuthorizationManager.Permission(
            entity=itself(context, thing),
            principal=one.principal,
            group=one.is_group,
            roleId=one.role,
            propagate=one.propagates,
        )
        for one in own
    ]


def _effective_roles(context: Context, thing: Managed) -> list[int]:
    lab = context.lab
    roles = [ADMIN] if lab.is_administrator else roles_on(context.state, lab.user, thing.moid)
    return [LESSENED if role == ADMIN and lab.faults.lacking else role for role in roles]


def custom_fields(context: Context) -> list[Any]:
    """Render the custom attributes that were defined, by name as CustomFieldsManager.field has them."""
    string = VmomiSupport.GetVmodlType("string")
    return [
        vim.CustomFieldsManager.FieldDef(
            key=field["key"], name=field["name"], type=string, managedObjectType=vim_type(field["type"])
        )
        for field in sorted(context.state.custom_values.get("fields", []), key=itemgetter("name"))
    ]


def _available_fields(context: Context, thing: Managed) -> list[Any]:
    kind = vim_class(wire_type(thing))
    return [
        field
        for field in custom_fields(context)
        if field.managedObjectType is None or issubclass(kind, field.managedObjectType)
    ]


def custom_values(context: Context, thing: Managed) -> list[Any]:
    """Render the values of an object's custom attributes."""
    values = context.state.custom_values.get("values", {}).get(thing.moid, {})
    return [vim.CustomFieldsManager.StringValue(key=int(key), value=value) for key, value in values.items()]


def recent_tasks(state: LabState) -> list[str]:
    """Return the moids of vCenter's recent tasks."""
    return [*state.open_tasks] if state.denies("recent-tasks") else state.tasks[-RECENT_TASKS:]


def _recent_tasks(context: Context, thing: Managed) -> list[Any]:
    """Render the tasks of an entity that are open, or ended a short while ago, however they ended."""
    since = context.lab.clock.now() - RECENT_SECONDS
    moids = dict.fromkeys([*recent_tasks(context.state), *context.state.open_tasks])
    tasks = (context.state.get(moid, Task) for moid in moids)
    return [
        vim.Task(task.moid)
        for task in tasks
        if task.entity == thing.moid and (task.ended_at is None or task.ended_at >= since)
    ]


GREEN = constant("green")

ENTITY: dict[str, Render] = {
    "value": custom_values,
    "availableField": _available_fields,
    "parent": lambda context, thing: reference_to(context, thing.parent),
    "customValue": custom_values,
    "overallStatus": GREEN,
    "configStatus": GREEN,
    "configIssue": constant([]),
    "effectiveRole": _effective_roles,
    "permission": lambda context, thing: permissions_on(context, thing.moid),
    "name": attribute(lambda thing: thing.name),
    "disabledMethod": constant([]),
    "recentTask": _recent_tasks,
    "declaredAlarmState": constant([]),
    "triggeredAlarmState": triggered,
    "alarmActionsEnabled": constant(value=True),
    "tag": constant([]),
}
"""Path → renderer of every managed entity."""
