"""Settings by name: options of hosts and of vCenter, and custom fields with their values on objects.

A host's advanced options are typed and known by name. An option is set to a value of its type, or refused: a
LongOption takes an xsd:long only. Whether a real vCenter takes an unknown setting of its own is unproven; the
lab refuses it.

Custom fields are attributes that are defined, renamed, dropped, and set on objects. The maximum length of a
value, and the effect of a longer one, is in no document that was found: the lab truncates it if a length was
set.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.references import Service, reference, vim_class, wire_type
from vgpu_cfg.lab.renderers.entity import custom_fields
from vgpu_cfg.lab.renderers.hardware import host_of
from vgpu_cfg.lab.renderers.host import BOOT, CONSOLIDATION, option_table, options
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.state.host import AdvancedOption
from vgpu_cfg.lab.state.inventory import Host, Managed
from vgpu_cfg.lab.state.tags import define, fields_of, set_value

ON_HOST = "Host.Config.AdvancedConfig"
ON_VCENTER = "Global.Settings"
"""Privileges that pyvmomi does not name; the second is recalled."""

_LONG: Any = VmomiSupport.vmodlTypes["long"]


@answers("OptionManager", "QueryOptions")
def query_options(context: Context, thing: Managed, *, name: str | None) -> list[Any]:
    """Return the option of a name, or all below a name that ends in a dot. Raises InvalidName."""
    found = options(context, thing)
    if name is None:
        return found
    is_below = name.endswith(".")
    chosen = [each for each in found if each.key == name or (is_below and each.key.startswith(name))]
    if not chosen:
        raise _unknown(name)
    return chosen


@answers("OptionManager", "UpdateOptions")
def update_options(context: Context, thing: Managed, *, changedValue: list[Any]) -> None:
    """Set options, all or none. Raises InvalidName, InvalidArgument for a value of another type."""
    if isinstance(thing, Service) and thing.owner is None:
        _update_vcenter(context, thing, changedValue)
        return
    host = host_of(thing)
    context.lab.check_privileges(reference(host), [ON_HOST])
    table = option_table(host)
    for change in changedValue:
        if change.key not in table:
            raise _unknown(change.key)
        if not _suits(table[change.key], change.value):
            raise refusals.bad_argument("changedValue.value")
    for change in changedValue:
        _set(host, change.key, change.value)
    context.state.touch(host)


def _update_vcenter(context: Context, thing: Managed, changes: list[Any]) -> None:
    context.lab.check_privileges(reference(thing), [ON_VCENTER])
    settings = context.state.settings
    for change in changes:
        if change.key not in settings:
            raise _unknown(change.key)
        if isinstance(settings[change.key], bool) != isinstance(change.value, bool):
            raise refusals.bad_argument("changedValue.value")
    for change in changes:
        if settings[change.key] != _plain(change.value):
            context.lab.note(context.state.objects[context.state.root], "vcenter settings", change.key)
    settings |= {change.key: _plain(change.value) for change in changes}
    context.state.touch()


def _suits(option: AdvancedOption, value: Any) -> bool:
    match option.kind:
        case "bool":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "long":
            return isinstance(value, _LONG)
        case "int":
            return isinstance(value, int) and not isinstance(value, (bool, _LONG))


def _set(host: Host, key: str, value: Any) -> None:
    if key == CONSOLIDATION:
        host.configured_assignment_policy = "consolidation" if value else "performance"
    elif key.startswith(BOOT):
        text = ("TRUE" if value else "FALSE") if isinstance(value, bool) else str(value)
        host.kernel[key.removeprefix(BOOT)].configured = text
    else:
        host.advanced[key].value = _plain(value)


def _plain(value: Any) -> bool | int | str:
    if isinstance(value, bool):
        return value
    return int(value) if isinstance(value, int) else str(value)


def _unknown(name: str) -> Exception:
    return vim.fault.InvalidName(name=name, msg=f"The name '{name}' is invalid.")


def _by_key(context: Context, key: int) -> dict[str, Any]:
    for field in fields_of(context.state):
        if field["key"] == key:
            return field
    raise vim.fault.NotFound(msg=f"The custom attribute {key} could not be found.")


@answers("CustomFieldsManager", "AddCustomFieldDef")
def add_custom_field_def(
    context: Context,
    thing: Managed,
    *,
    name: str,
    moType: Any,
    fieldDefPolicy: Any,
    fieldPolicy: Any,
) -> Any:
    """Define an attribute for one type of objects, or for all. Raises DuplicateName."""
    _check_name(thing, name, fields_of(context.state))
    made = define(context.state, name, VmomiSupport.GetWsdlName(moType) if moType else None)
    context.state.touch()
    return next(field for field in custom_fields(context) if field.key == made["key"])


@answers("CustomFieldsManager", "RemoveCustomFieldDef")
def remove_custom_field_def(context: Context, thing: Managed, *, key: int) -> None:
    """Drop an attribute with all its values."""
    fields_of(context.state).remove(_by_key(context, key))
    for values in context.state.custom_values.get("values", {}).values():
        values.pop(str(key), None)
    context.state.touch()


@answers("CustomFieldsManager", "RenameCustomFieldDef")
def rename_custom_field_def(context: Context, thing: Managed, *, key: int, name: str) -> None:
    """Call an attribute something else. Raises DuplicateName."""
    field = _by_key(context, key)
    _check_name(thing, name, [other for other in fields_of(context.state) if other is not field])
    field["name"] = name
    context.state.touch()


@answers("CustomFieldsManager", "SetField")
def set_field(context: Context, thing: Managed, *, entity: Any, key: int, value: str) -> None:
    """Set an attribute of an object; an empty value unsets it.

    An attribute of one type is valid for objects of that type (CustomFieldDef.managedObjectType in the
    vSphere API reference); that it is InvalidArgument which says so is assumed.
    """
    field = _by_key(context, key)
    target = context.state.objects.get(entity._moId)
    if target is None:
        raise object_gone(entity)
    if field["type"] and not issubclass(vim_class(wire_type(target)), vim_class(field["type"])):
        raise refusals.bad_argument("key")
    _custom_fields_set(context, target, key, value)


@answers("ExtensibleManagedObject", "setCustomValue")
def set_custom_value(context: Context, thing: Managed, *, key: str, value: str) -> None:
    """Set an attribute by its name; that managers have none is assumed."""
    if isinstance(thing, Service):
        raise refusals.not_supported()
    for field in fields_of(context.state):
        if field["name"] == key:
            _custom_fields_set(context, thing, field["key"], value)
            return
    raise vim.fault.NotFound(msg=f"The custom attribute {key} could not be found.")


def _check_name(thing: Managed, name: str, others: list[dict[str, Any]]) -> None:
    if any(field["name"] == name for field in others):
        raise refusals.duplicate_name(name, reference(thing))


def _custom_fields_set(context: Context, target: Managed, key: int, value: str) -> None:
    context.lab.check_privileges(reference(target), ["Global.SetCustomField"])
    set_value(context.state, target, key, value[: context.lab.attribute_length])
    past_events.record(
        context.lab,
        target,
        "CustomFieldValueChangedEvent",
        fieldKey=key,
        name=_by_key(context, key)["name"],
        value=value,
        entity=vim.event.ManagedEntityEventArgument(name=target.name, entity=reference(target)),
    )
