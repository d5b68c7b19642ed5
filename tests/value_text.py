"""Values as texts to store: of models the fields that were set, of sets the items in order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel


def text_of(value: Any) -> str:
    """Return a value as a text that is the same in each run."""
    if isinstance(value, BaseModel):
        names = sorted(value.model_fields_set)
        text = ", ".join(f"{name} {text_of(getattr(value, name))}" for name in names)
    elif is_dataclass(value):
        text = ", ".join(f"{one.name} {text_of(getattr(value, one.name))}" for one in fields(value))
    elif isinstance(value, set | frozenset):
        text = " ".join(sorted(map(text_of, value)))
    elif isinstance(value, list | tuple):
        text = " ".join(map(text_of, value))
    elif isinstance(value, Mapping):
        text = ", ".join(f"{key} {text_of(one)}" for key, one in value.items())
    else:
        text = str(value.value if isinstance(value, Enum) else value)
    return text.strip()


def lines_of(value: Any, path: str = "") -> Iterator[str]:
    """Yield a model's values, a line for each that is no model or list of models."""
    if isinstance(value, BaseModel):
        for name in sorted(value.model_fields_set):
            yield from lines_of(getattr(value, name), f"{path}.{name}".lstrip("."))
    elif isinstance(value, tuple) and any(isinstance(one, BaseModel) for one in value):
        for index, one in enumerate(value):
            yield from lines_of(one, f"{path}.{index}")
    elif isinstance(value, Mapping) and any(isinstance(one, BaseModel) for one in value.values()):
        for key, one in value.items():
            yield from lines_of(one, f"{path}.{key}")
    elif value not in (None, "", (), {}, frozenset()):
        yield f"{path}: {text_of(value)}"
