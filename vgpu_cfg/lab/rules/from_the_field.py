"""Refusals that people reported from real systems: when, which fault, which text, and the source.

`known` says which part the source has; the rest is recalled or assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from pydantic import BaseModel, RootModel
from pyVmomi import vim, vmodl

from vgpu_cfg.documents import build, read_document
from vgpu_cfg.lab.rules import refusals


class Reported(BaseModel):
    """A row of `from_the_field.yaml`; `when` completes a sentence that begins with "Rejected"."""

    when: str
    fault: str
    text: str
    known: Literal["text", "fault", "both", "rule"]
    source: str


class _Table(RootModel[dict[str, Reported]]):
    pass


@cache
def reported() -> Mapping[str, Reported]:
    """Return the rows by name."""
    return MappingProxyType(build(read_document(Path(__file__).with_suffix(".yaml")), _Table).root)


def text_of(row: str, /, **values: object) -> str:
    """Return the text of a row with its values."""
    return reported()[row].text.format(**values)


def refuse(row: str, /, **values: Any) -> Exception:
    """Return the fault of a row; values that its type has as fields are set."""
    text, fault = text_of(row, **values), reported()[row].fault
    if fault == "GenericVmConfigFault":
        return refusals.power_on_failed(text)
    kind: Any = getattr(vim.fault, fault, None) or getattr(vmodl.fault, fault)
    fields = {info.name for info in kind._GetPropertyList()}
    made: Exception = kind(msg=text, **{key: value for key, value in values.items() if key in fields})
    return made
