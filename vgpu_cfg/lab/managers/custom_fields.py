"""Custom attributes: their definitions, and their values on objects.

Kept as plain values in `LabState.custom_values`: `fields` a list of {key, name, type},
`values` moid → {key as text: value}.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.collector.select import object_gone
from vgpu_cfg.lab.managers.methods import answers
from vgpu_cfg.lab.renderers.entity import custom_fields
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.soap.context import Context, reference, vim_class, wire_type
from vgpu_cfg.lab.state import Managed

FIRST_KEY = 101


def _fields(context: Context) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = context.state.custom_values.setdefault("fields", [])
    return fields


def _by_key(context: Context, key: int) -> dict[str, Any]:
    for field in _fields(context):
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
    fields = _fields(context)
    _check_name(thing, name, fields)
    key = max((field["key"] for field in fields), default=FIRST_KEY - 1) + 1
    fields.append({"key": key, "name": name, "type": VmomiSupport.GetWsdlName(moType) if moType else None})
    context.state.touch()
    return next(field for field in custom_fields(context) if field.key == key)


@answers("CustomFieldsManager", "RemoveCustomFieldDef")
def remove_custom_field_def(context: Context, thing: Managed, *, key: int) -> None:
    """Drop an attribute with all its values."""
    _fields(context).remove(_by_key(context, key))
    for values in context.state.custom_values.get("values", {}).values():
        values.pop(str(key), None)
    context.state.touch()


@answers("CustomFieldsManager", "RenameCustomFieldDef")
def rename_custom_field_def(context: Context, thing: Managed, *, key: int, name: str) -> None:
    """Call an attribute something else. Raises DuplicateName."""
    field = _by_key(context, key)
    _check_name(thing, name, [other for other in _fields(context) if other is not field])
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
    _set(context, target, key, value)


@answers("ExtensibleManagedObject", "setCustomValue")
def set_custom_value(context: Context, thing: Managed, *, key: str, value: str) -> None:
    """Set an attribute by its name."""
    for field in _fields(context):
        if field["name"] == key:
            _set(context, thing, field["key"], value)
            return
    raise vim.fault.NotFound(msg=f"The custom attribute {key} could not be found.")


def _check_name(thing: Managed, name: str, others: list[dict[str, Any]]) -> None:
    if any(field["name"] == name for field in others):
        raise refusals.duplicate_name(name, reference(thing))


def _set(context: Context, target: Managed, key: int, value: str) -> None:
    context.lab.faults.check_privileges(reference(target), ["Global.SetCustomField"])
    values = context.state.custom_values.setdefault("values", {}).setdefault(target.moid, {})
    if value:
        values[str(key)] = value
    else:
        values.pop(str(key), None)
    context.state.touch(target)
