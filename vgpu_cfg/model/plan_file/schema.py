"""The JSON schema of a plan file, for editors and for `vgpu-cfg validate --schema plan-file`.

It is made from the models, and allows what editing has to: a `${variable}` or a
`{n}`, `{i}`, `{k}` in the place of any number, choice or address, and keys that
begin with `x-` at the top. Keys that this release does not support are not in it.
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.model.plan_file.entries import PlanFile

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_TEMPLATED = {"$ref": "#/$defs/Templated"}
_REQUIRED = ["version", "name", "vcenter"]


def plan_file_schema() -> dict[str, Any]:
    """Return the schema (draft 2020-12) of a plan file that is not included by another."""
    made = PlanFile.model_json_schema(by_alias=True, mode="validation")
    definitions: dict[str, Any] = made.pop("$defs")
    for definition in definitions.values():
        definition["properties"] = {name: _templated(rule) for name, rule in definition["properties"].items()}
    properties = {name: _untitled(rule) for name, rule in made["properties"].items()}
    definitions["Templated"] = {
        "description": "Text that contains a ${variable} or one of {n}, {i}, {k}.",
        "type": "string",
        "pattern": r"\$\{[^}]+\}|\{[nik]\}|\{[0-9]+\.\.[0-9]+\}",
    }
    return {
        "$schema": _DIALECT,
        "$id": "urn:vgpu-cfg:plan-file:1",
        "title": "vgpu-cfg plan file",
        "description": made["description"],
        "type": "object",
        "properties": properties,
        "patternProperties": {"^x-": {"description": "Ignored; use it for YAML anchors."}},
        "additionalProperties": False,
        "required": _REQUIRED,
        "$defs": dict(sorted(definitions.items())),
    }


def _untitled(schema: dict[str, Any]) -> dict[str, Any]:
    """Leave out the titles that pydantic makes of names."""
    return {word: value for word, value in schema.items() if word != "title"}


def _templated(schema: dict[str, Any]) -> dict[str, Any]:
    """Also allow templated text wherever free text is not allowed, down to the items of lists."""
    schema = _untitled(schema)
    if "items" in schema:
        return {**schema, "items": _templated(schema["items"])}
    if "anyOf" in schema:
        lists = [_templated(choice) if "items" in choice else choice for choice in schema["anyOf"]]
        extra = [] if all(_is_open(choice) for choice in lists) else [_TEMPLATED]
        return {**schema, "anyOf": [*lists, *extra]}
    if _is_open(schema):
        return schema
    reported = {word: schema[word] for word in schema if word == "description" or word.startswith("x-")}
    rule = {word: value for word, value in schema.items() if word not in reported}
    return {**reported, "anyOf": [rule, _TEMPLATED]}


def _is_open(schema: dict[str, Any]) -> bool:
    """Whether it already allows templated text, or has no value that text could represent."""
    if schema.get("type") == "string":
        return not {"pattern", "enum", "const", "format"} & schema.keys()
    return "$ref" in schema or schema.get("type") in ("object", "array")
