"""Rows of known failures that are kept as data: a TOML file for each place, a table for each row.

A table's keys are the fields of `FaultRow`; `kernel = true` repeats its `patterns`. A source that says
"from memory" makes a row `INFERRED`.
These rows are known by their patterns alone, never by likeness.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

FOLDER = Path(__file__).parent


def read_rows(name: str) -> tuple[FaultRow, ...]:
    """Return the rows of a file, in its order."""
    tables = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return tuple(_row(key, fields) for key, fields in tables.items())


def _row(key: str, fields: dict[str, Any]) -> FaultRow:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    if values.get("kernel") is True:
        values["kernel"] = values["patterns"]
    is_recalled = "from memory" in fields["source"]
    confidence = Confidence.INFERRED if is_recalled else Confidence.SEEN
    return FaultRow(key, confidence=confidence, is_verbatim=True, **values)
