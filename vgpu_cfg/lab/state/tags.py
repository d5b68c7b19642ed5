"""The state of tags and custom attributes: their definitions, and their objects or values, as plain values.

In `LabState.tagging`: `categories` id → {name, description, cardinality, associable_types}, `tags` id →
{name, description, category_id}, `attached` id of a tag → list of [type, moid].

In `LabState.custom_values`: `fields` a list of {key, name, type}, `values` moid → {key as text: value}.
"""

from __future__ import annotations

import uuid
from typing import Any

from vgpu_cfg.lab.state.inventory import LabState, Managed

_NAMES = uuid.UUID("b1e3c1de-7a6e-4d8b-9d5f-0f3f7c8a2d11")

FIRST_KEY = 101


def categories_of(state: LabState) -> dict[str, dict[str, Any]]:
    """Return the categories by id; a change of it is one of the state's."""
    found: dict[str, dict[str, Any]] = state.tagging.setdefault("categories", {})
    return found


def tags_of(state: LabState) -> dict[str, dict[str, Any]]:
    """Return the tags by id; a change of it is one of the state's."""
    found: dict[str, dict[str, Any]] = state.tagging.setdefault("tags", {})
    return found


def objects_of(state: LabState, tag_id: str) -> list[list[str]]:
    """Return the objects of a tag, each as [type, moid]; a change of it is one of the state's."""
    found: list[list[str]] = state.tagging.setdefault("attached", {}).setdefault(tag_id, [])
    return found


def add_category(
    state: LabState, name: str, cardinality: str, types: list[str], description: str = ""
) -> str:
    """Add a category, and return its id."""
    made = _urn("Category", name)
    categories_of(state)[made] = {
        "name": name,
        "description": description,
        "cardinality": cardinality,
        "associable_types": types,
    }
    return made


def add_tag(state: LabState, category_id: str, name: str, description: str = "") -> str:
    """Add a tag to a category, and return its id."""
    made = _urn("Tag", f"{category_id}/{name}")
    tags_of(state)[made] = {"name": name, "description": description, "category_id": category_id}
    return made


def attached_to(state: LabState, kind: str, moid: str) -> list[str]:
    """Return the ids of the tags of an object."""
    return [tag_id for tag_id in tags_of(state) if [kind, moid] in objects_of(state, tag_id)]


def forget_tags_of(state: LabState, moid: str) -> None:
    """Take an object that has gone away from all its tags."""
    for objects in state.tagging.get("attached", {}).values():
        objects[:] = [one for one in objects if one[1] != moid]


def _urn(kind: str, name: str) -> str:
    """Return an id that follows from the name, so that an estate is the same each time."""
    return f"urn:vmomi:InventoryService{kind}:{uuid.uuid5(_NAMES, name)}:GLOBAL"


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
