"""Keys of a plan file: the rule in the JSON schema that a declaration makes."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import TakesEffect, key


@pytest.mark.parametrize(
    ("declared", "rule", "value"),
    [
        (key("a"), {}, None),
        (key("a", default="as the template"), {"x-default": "as the template"}, None),
        (key("a", value=0), {"x-default": "0"}, 0),
        (key("a", value=False), {"x-default": "false"}, False),
        (key("a", value="thin"), {"x-default": "thin"}, "thin"),
        (key("a", value=10, default="ten"), {"x-default": "ten"}, 10),
        (key("a", value=tuple), {}, ()),
        (key("a", next(iter(TakesEffect)), minimum=1), {"x-takes-effect": None, "minimum": 1}, None),
    ],
)
def test_a_key_states_its_default_and_when_it_takes_effect(
    declared: Any, rule: dict[str, Any], value: Any
) -> None:
    class Entry(Frozen):
        one: Any = declared

    schema = Entry.model_json_schema()["properties"]["one"]
    found = {word: said for word, said in schema.items() if word not in ("title", "description")}
    if "x-takes-effect" in rule:
        rule = rule | {"x-takes-effect": next(iter(TakesEffect)).value}
    assert found == rule
    assert schema["description"] == "a"
    assert Entry().one == value
    assert Entry().model_fields_set == set()
