"""The ideas that a search for fixes draws from a plan, and its fixes, as text: edits, commands, effects."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from tests.value_text import text_of
from vgpu_cfg.changes.suggestion import Fix
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.suggestions.candidate import Candidate

_MOST_LETTERS = 100


def idea_lines(idea: Candidate, observed: Inventory) -> Iterator[str]:
    """Yield an idea's words, edits and commands, and what its effect changes in an estate."""
    yield f"{idea.kind} {idea.cost.name.lower()}: {idea.says}"
    rows = {
        "flag": idea.flag,
        "line": f"{idea.of}: {idea.alike}" if idea.of else "",
        "touches": " ".join(idea.touches),
        "empties": " ".join(idea.empties),
        "hosts": f"{idea.hosts[0]} like {idea.hosts[1]}" if idea.hosts[0] else "",
    }
    yield from (f"  {name} {text}" for name, text in rows.items() if text)
    for edit in idea.edits:
        yield f"  {'.'.join(map(str, edit.loc))} = {edit.value!r}"
    yield from (f"  $ {line}" for line in (idea.command, *idea.then) if line)
    if idea.effect is not None and idea.hosts[0] in (0, 2):  # one host or three are like two
        yield from (f"  {line}" for line in _changes(observed, idea.effect(observed), ""))


def fix_lines(fix: Fix) -> Iterator[str]:
    """Yield what a fix shows: its parts, the changed lines of the file, and what else it disturbs."""
    for part in fix.parts:
        yield f"fix, {part.kind}: {part.says}"
        yield from (f"  $ {line}" for line in part.lines)
    yield from (f"  {line}" for line in fix.lines if line[0] in "+-")
    yield from (f"  disturbs {text}" for text in fix.disturbs)
    yield from (f"  other, weight {one.weight}: {one.says}" for one in fix.others)


def _changes(before: Any, after: Any, path: str) -> Iterator[str]:
    """Yield the values that differ, by their path; a new item as its differences from a similar one."""
    if before is after or before == after:
        return
    if isinstance(before, BaseModel) and type(before) is type(after):
        for name in type(before).model_fields:
            yield from _changes(getattr(before, name), getattr(after, name), f"{path}.{name}".lstrip("."))
    elif isinstance(before, tuple) and isinstance(after, tuple):
        if not any(isinstance(one, BaseModel) for one in (*before, *after)) and {*before} != {*after}:
            words = [f"-{one}" for one in before if one not in after]
            words += [f"+{one}" for one in after if one not in before]
            yield f"{path}: {_value(words)}"
        else:
            yield from _changes(dict(enumerate(before)), dict(enumerate(after)), path)
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in (key for key in before if key in after):
            yield from _changes(before[key], after[key], f"{path}.{key}")
        yield from (f"{path}.{key}: new, {_new(after[key], before)}" for key in after if key not in before)
        yield from (f"{path}.{key}: removed" for key in before if key not in after)
    else:
        yield f"{path}: {_value(before)} -> {_value(after)}"


def _new(value: Any, known: dict[Any, Any]) -> str:
    alike = [other for other in known.values() if type(other) is type(value)]
    if not isinstance(value, BaseModel) or not alike:
        return _value(value) or "empty"
    differences: list[list[str]] = [[*_changes(other, value, "")] for other in alike]
    shortest = min(differences, key=len)
    return "; ".join(shortest) or "as another"


def _value(value: Any) -> str:
    """Return a value as a text, cut where it is long."""
    text = text_of(value)
    return text if len(text) <= _MOST_LETTERS else f"{text[:_MOST_LETTERS]}…"
