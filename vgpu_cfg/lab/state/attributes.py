"""How the state keeps custom attributes: their definitions, and their values on objects.

Plain values in `LabState.custom_values`: `fields` a list of {key, name, type}, `values` moid → {key as
text: value}.
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.lab.state.inventory import LabState, Managed

FIRST_KEY = 101


def fields_of(state: LabState) -> list[dict[str, Any]]:
    """Return the definitions, oldest first; a change of the list is one of the state's."""
    fields: list[dict[str, Any]] = state.custom_values.setdefault("fields", [])
    return fields


def define(state: LabState, name: str, kind: str | None) -> dict[str, Any]:
    """Define an attribute for one type of objects (its name on the wire), or for all."""
    fields = fields_of(state)
    key = max((field["key"] for field in fields), default=FIRST_KEY - 1) + 1
    fields.append({"key": key, "name": name, "type": kind})
    return fields[-1]


def set_value(state: LabState, target: Managed, key: int, value: str) -> None:
    """Set an attribute of an object; an empty value unsets it."""
    values = state.custom_values.setdefault("values", {}).setdefault(target.moid, {})
    if value:
        values[str(key)] = value
    else:
        values.pop(str(key), None)
    state.touch(target)


def set_attribute(state: LabState, target: Managed, name: str, value: str) -> None:
    """Set an attribute by its name, defined for the object's type where there is none of that name."""
    known = next((field for field in fields_of(state) if field["name"] == name), None)
    set_value(state, target, (known or define(state, name, target.wsdl_type))["key"], value)
