"""The JSON schema of plan.json, for programs that read plans: the keys that the format promises.

It is made from the models. The expanded plan file, the inputs for the order of power-ons, and the fields of a
single kind of change belong to vgpu-cfg itself and are not described. See docs/reference/plan-json.md.
"""

from __future__ import annotations

from typing import Any, Final

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.change import KINDS
from vgpu_cfg.changes.plan import PLAN_FORMAT, Plan

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_OWN: Final = {
    "desired": {
        "type": "object",
        "description": "The expanded plan file. Its content may change without notice.",
    },
    "contests": {
        "type": "array",
        "description": "For internal use by vgpu-cfg. Its content may change without notice.",
    },
}


def plan_json_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of a saved plan and of the value of `plan` in JSON output."""
    made = _opened(Plan.model_json_schema(by_alias=False, mode="serialization"))
    definitions: dict[str, Any] = made["$defs"]
    definitions["Change"] = _change([definitions[kind.__name__] for kind in KINDS])
    changes = {**made["properties"]["changes"], "items": {"$ref": "#/$defs/Change"}}
    digest = {
        "type": "string",
        "description": "A checksum of the changes and placements, as eight hex digits.",
    }
    properties = {"digest": digest, **made["properties"], "changes": changes, **_OWN}
    return {
        "$schema": _DIALECT,
        "$id": f"urn:vgpu-cfg:plan-json:{PLAN_FORMAT}",
        "title": f"vgpu-cfg plan.json, format {PLAN_FORMAT}",
        "type": "object",
        "properties": properties,
        "required": ["digest", *made["required"]],
        "$defs": {name: definitions[name] for name in sorted(_reached(properties, definitions))},
    }


def _change(kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the schema of the fields that all kinds of changes have."""
    names = [kind["properties"]["kind"]["const"] for kind in kinds]
    common = {field: kinds[0]["properties"][field] for field in ChangeBase.model_fields}
    return {
        "type": "object",
        "description": "A change. Some kinds have additional keys, which may change without notice.",
        "properties": {"kind": {"type": "string", "enum": names}, **common},
        "required": ["kind", *common],
    }


def _reached(rule: Any, definitions: dict[str, Any]) -> set[str]:
    """Return the names of the definitions that a part of the schema refers to, directly or not."""
    if isinstance(rule, list):
        return {name for one in rule for name in _reached(one, definitions)}
    if not isinstance(rule, dict):
        return set()
    if "$ref" in rule:
        name = rule["$ref"].rpartition("/")[2]
        return {name} | _reached(definitions[name], definitions)
    return _reached(list(rule.values()), definitions)


def _opened(rule: Any) -> Any:
    """Return a schema without titles, and open for keys that a release may add."""
    if isinstance(rule, list):
        return [_opened(one) for one in rule]
    if not isinstance(rule, dict):
        return rule
    left = {word: value for word, value in rule.items() if not (word == "title" and isinstance(value, str))}
    if left.get("additionalProperties") is False:
        del left["additionalProperties"]
    return {word: _opened(value) for word, value in left.items()}
