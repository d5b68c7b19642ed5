"""Rows of known failures that are kept as data: a TOML file for each place, a table for each row.

A table's keys are the fields of `FaultRow`; `kernel = true` repeats its `patterns`. A source that says
"from memory" makes a row `INFERRED`.
A table with `rows` is a family of numbered errors: each of them is [number, name, text, cause, remedy].
All these rows are known by their patterns alone, never by likeness.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

FOLDER = Path(__file__).parent


def read_rows(name: str) -> tuple[FaultRow, ...]:
    """Return the rows of a file, in its order."""
    tables = tomllib.loads((FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return tuple(row for key, fields in tables.items() for row in _rows(key, fields))


def in_other_languages(rows: tuple[FaultRow, ...]) -> tuple[FaultRow, ...]:
    """Return the rows with the patterns of vCenter's texts in other languages."""
    found = tomllib.loads((FOLDER / "languages.toml").read_text(encoding="utf-8"))
    own = {row.key: tuple(text["pattern"] for text in found.get(row.key, ())) for row in rows}
    return tuple(replace(row, patterns=row.patterns + own[row.key]) if own[row.key] else row for row in rows)


def _rows(key: str, fields: dict[str, Any]) -> Iterator[FaultRow]:
    if "rows" not in fields:
        yield _row(key, fields)
        return
    for number, name, text, cause, remedy in fields.pop("rows"):
        said = {"{number}": str(number), "{name}": name, "{text}": text}
        literal = {**said, "{text}": re.escape(text).replace("\\ ", " ")}
        patterns = [_filled(one, literal) for one in fields["patterns"]]
        known = {word: _filled(fields[word], said) for word in ("sample", "symptom")}
        own = {"patterns": patterns, "cause": cause, "remedy": remedy, **known}
        yield _row(f"{key.removesuffix('-number')}-{number}", {**fields, **own})


def _filled(text: str, said: dict[str, str]) -> str:
    for word, value in said.items():
        text = text.replace(word, value)
    return text


def _row(key: str, fields: dict[str, Any]) -> FaultRow:
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()
    }
    if values.get("kernel") is True:
        values["kernel"] = values["patterns"]
    values["faults"] = frozenset(values.get("faults", ()))
    confidence = Confidence.INFERRED if "from memory" in fields["source"] else Confidence.SEEN
    return FaultRow(key, confidence=confidence, is_verbatim=True, **values)
