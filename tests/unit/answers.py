"""Values as lines of text, for stored answers: what is empty, or a default, is left out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vgpu_cfg.documents import parse_text

SHORT = 60
"""Longer parts of a value have lines of their own."""


def samples(path: Path) -> dict[str, Any]:
    """Read the samples of a YAML file by their names."""
    found: dict[str, Any] = parse_text(path.read_text(encoding="utf-8"), path.name).root.value
    return found


def own_properties(kind: type) -> list[str]:
    """List the properties that classes of this project give a kind, sorted."""
    bases = [base for base in kind.__mro__ if base.__module__.startswith("vgpu_cfg")]
    names = sorted({name for base in bases for name in vars(base) if not name.startswith("_")})
    return [name for name in names if isinstance(getattr(kind, name), property | cached_property)]


def as_text(value: object) -> object:
    """Return a text, if the value is short, or its parts by name."""
    if isinstance(value, BaseModel):
        return as_text({key: getattr(value, key) for key in type(value).model_fields})
    if is_dataclass(value) and not isinstance(value, type):
        return as_text({one.name: getattr(value, one.name) for one in fields(value)})
    if isinstance(value, Mapping):
        parts = {key: found for key, one in value.items() if (found := as_text(one)) != ""}
        if all(isinstance(one, str) and len(one) < SHORT for one in parts.values()):
            return ", ".join(f"{key}={one}" for key, one in parts.items())
        return parts
    if isinstance(value, tuple | list | frozenset):
        members = [as_text(one) for one in (sorted(value) if isinstance(value, frozenset) else value)]
        if all(isinstance(one, str) for one in members):
            return " | ".join(map(str, members))
        return dict(enumerate(members))
    return "" if value in (None, False, 0) else str(value)


def _lines(name: str, value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _lines(f"{name}.{key}", one)
    elif value:
        yield f"{name}: {value}".rstrip()


def told(answers: Iterable[tuple[str, object]]) -> str:
    """Write answers as lines, each with the name of its question."""
    return "\n".join(line for name, value in answers for line in _lines(name, as_text(value)))
