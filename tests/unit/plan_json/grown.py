"""What a reader of documents of one schema loses if they follow another: keys, values, certainty."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Schema = dict[str, Any]


def losses(old: Schema, new: Schema) -> list[str]:
    """Return what of `old` the schema `new` no longer promises; new keys and new values are no loss."""
    return sorted(set(_lost(old, new, "plan", (old, new), ())))


def _lost(
    old: Schema, new: Schema, at: str, whole: tuple[Schema, Schema], seen: tuple[str, ...]
) -> Iterator[str]:
    name = old.get("$ref", "")
    if name in seen:
        return
    old, new = _followed(old, whole[0]), _followed(new, whole[1])
    for word in ("type", "const", "format"):
        if old.get(word) != new.get(word):
            yield f"{at} is of another {word}"
    yield from (f"{at} is never {value}" for value in old.get("enum", ()) if value not in new.get("enum", ()))
    if "enum" in new and "enum" not in old:
        yield f"{at} has only certain values"
    inner = (*seen, name) if name else seen
    for key, rule in old.get("properties", {}).items():
        there = new.get("properties", {}).get(key)
        if there is None:
            yield f"{at}.{key} is gone"
        else:
            yield from _lost(rule, there, f"{at}.{key}", whole, inner)
    for key in old.get("required", ()):
        if key not in new.get("required", ()):
            yield f"{at}.{key} may be missing"
    for word in ("items", "additionalProperties"):
        if word in old:
            yield from _lost(old[word], new.get(word, {}), f"{at}[]", whole, inner)
    choices = new.get("anyOf", [])
    if len(old.get("anyOf", [])) != len(choices):
        yield f"{at} is of other types"
    for one, other in zip(old.get("anyOf", []), choices, strict=False):
        yield from _lost(one, other, at, whole, inner)


def _followed(rule: Schema, whole: Schema) -> Schema:
    name = rule.get("$ref", "").rpartition("/")[2]
    return whole["$defs"][name] if name else rule
