"""Within a format the schema of plan.json only grows, and its page names every key.

tests/plans/test_cases.py and tests/cli/test_json.py hold plans to it.
"""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.plans.planned import plan_of
from tests.plans.tables import CASES
from tests.unit.plan_json.grown import losses
from vgpu_cfg.changes.plan import PLAN_FORMAT
from vgpu_cfg.changes.schema import plan_json_schema

ROOT = Path(__file__).parents[3]
RELEASED = Path(__file__).with_name(f"plan-json-{PLAN_FORMAT}.json")
PAGE = ROOT / "docs/reference/plan-json.md"


@cache
def schema() -> dict[str, Any]:
    return plan_json_schema()


@cache
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema())


def test_it_is_a_schema() -> None:
    Draft202012Validator.check_schema(schema())
    assert schema()["$id"].endswith(f":{schema()['properties']['format']['const']}")


def test_a_plan_without_a_key_is_not() -> None:
    whole = plan_of(CASES[0]).as_saved()
    assert [key for key in whole if validator().is_valid({k: v for k, v in whole.items() if k != key})] == []


def test_it_only_grows() -> None:
    """REWRITE_PAGES=1 writes the schema of this format down if nothing is lost; a loss needs a new format."""
    if RELEASED.exists():
        assert losses(json.loads(RELEASED.read_text(encoding="utf-8")), schema()) == []
    text = json.dumps(without_words(schema()), indent=1) + "\n"
    if os.environ.get("REWRITE_PAGES") == "1":
        RELEASED.write_text(text, encoding="utf-8")
    assert RELEASED.read_text(encoding="utf-8") == text, "REWRITE_PAGES=1 writes it anew"


def without_words(rule: Any) -> Any:
    """Return a schema without descriptions, which may change at any time."""
    if isinstance(rule, list):
        return [without_words(one) for one in rule]
    if not isinstance(rule, dict):
        return rule
    return {
        key: without_words(value)
        for key, value in rule.items()
        if key != "default" and not (key in ("description", "title") and isinstance(value, str))
    }


def drop(*path: str) -> Callable[[dict[str, Any]], object]:
    def dropped(schema: dict[str, Any]) -> object:
        for key in path[:-1]:
            schema = schema[key]
        return schema.pop(path[-1])

    return dropped


LOSSES: list[tuple[Callable[[dict[str, Any]], object], str]] = [
    (drop("properties", "placements"), "plan.placements is gone"),
    (drop("$defs", "Disturbed", "properties", "is_own"), "plan.disturbed[].is_own is gone"),
    (lambda made: made["required"].remove("changes"), "plan.changes may be missing"),
    (
        lambda made: made["$defs"]["Edit"]["required"].remove("sets"),
        "plan.changes[].edits[].sets may be missing",
    ),
    (
        lambda made: made["$defs"]["Experience"]["enum"].remove("powered off"),
        "plan.disturbed[].experience is never powered off",
    ),
    (
        lambda made: made["$defs"]["Placement"]["properties"].update(vm={"type": "object"}),
        "plan.placements[].vm is of another type",
    ),
    (
        lambda made: made["$defs"]["Subject"]["properties"].update(moid={"type": "string"}),
        "plan.changes[].subject.moid is of other types",
    ),
    (
        lambda made: made["$defs"]["Diagnostic"]["properties"]["code"].update(enum=["VG001"]),
        "plan.diagnostics[].code has only certain values",
    ),
    (
        lambda made: made["properties"]["others"].update(additionalProperties={"type": "object"}),
        "plan.others[] is of another type",
    ),
]


@pytest.mark.parametrize(("lose", "said"), LOSSES, ids=[said for _, said in LOSSES])
def test_a_loss_is_seen(lose: Callable[[dict[str, Any]], object], said: str) -> None:
    made = copy.deepcopy(schema())
    lose(made)
    assert said in losses(schema(), made)


def test_growth_is_none() -> None:
    made = copy.deepcopy(schema())
    made["properties"]["more"] = {"type": "string"}
    made["required"].append("disturbed")
    made["$defs"]["Change"]["properties"]["kind"]["enum"].append("paint_vm")
    assert losses(schema(), made) == []


def keys_of(rule: Any) -> Iterator[str]:
    """Yield the names of all keys that a schema describes."""
    if isinstance(rule, dict):
        properties = rule.get("properties")
        if isinstance(properties, dict):
            yield from properties
        for value in rule.values():
            yield from keys_of(value)
    if isinstance(rule, list):
        for value in rule:
            yield from keys_of(value)


def test_the_page_names_every_key() -> None:
    named = set(re.findall(r"`([a-z_]+)`", PAGE.read_text(encoding="utf-8")))
    assert set(keys_of(schema())) - named == set()
