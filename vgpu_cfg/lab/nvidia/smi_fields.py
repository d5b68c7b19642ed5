"""nvidia-smi -q: the fields that each driver prints, from `smi_fields.txt`, with the values of a GPU.

Between 580.105.08 and 580.119.02 the colons moved to the right, except those of processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

WIDTH, WIDE = 42, 55
"""Columns of the colon."""
WIDE_SINCE = (580, 119)

Version = tuple[int, ...]

_FIELD = re.compile(r"(?P<name>.+?)(?: : (?P<value>.*?))?(?: \[(?P<since>[\d.]*)-(?P<until>[\d.]*)\])?")


@dataclass(frozen=True, slots=True)
class Field:
    """A field or section: its path, its value in a sound GPU, and the versions that print it."""

    path: tuple[str, ...]
    value: str | None
    since: Version
    until: Version

    def is_of(self, version: Version) -> bool:
        """Whether a version prints it."""
        return self.since <= version and (not self.until or version < self.until)


def version_of(driver: str) -> Version:
    """Return a version's numbers; none if it is unknown."""
    return tuple(int(part) for part in driver.split(".") if part.isdigit())


@cache
def fields() -> tuple[Field, ...]:
    """Read the description."""
    found: list[Field] = []
    above: tuple[str, ...] = ()
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        depth = (len(line) - len(line.lstrip())) // 4
        for text in line.strip().split(" | ") if not line.startswith("#") else ():
            match = _FIELD.fullmatch(text)
            if match is None:
                raise ValueError(f"not a field: {text}")
            above = (*above[:depth], match["name"])
            since, until = (version_of(match[name] or "") for name in ("since", "until"))
            found.append(Field(above, match["value"], since, until))
    return tuple(found)


def block_of(driver: str, values: Mapping[str, str | None], silent: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield the lines of a GPU.

    `values` are by path, as `ECC Mode/Current`; a section's own replaces its fields, None leaves it out.
    Sections in `silent` print N/A.
    """
    version = version_of(driver)
    sections = {field.path[:-1] for field in fields()}
    closed: tuple[str, ...] = ("",)
    for field in fields():
        path = "/".join(field.path)
        if field.path[: len(closed)] == closed and len(field.path) > len(closed):
            continue
        is_section = field.value is None and field.path in sections
        if not field.is_of(version) or (path in values and (is_section or values[path] is None)):
            closed = field.path if field.path in sections else closed
            if not field.is_of(version) or values[path] is None:
                continue
        blanks = "    " * len(field.path)
        if is_section and path not in values:
            yield f"{blanks}{field.path[-1]}"
            continue
        default = None if path.startswith(silent) else field.value
        value = values.get(path) or default or "N/A"
        is_of_process = field.path[0] == "Processes" and len(field.path) > 1
        yield line_of(f"{blanks}{field.path[-1]}", value, "" if is_of_process else driver)


def line_of(name: str, value: str, driver: str) -> str:
    """Return one line of a version's report."""
    width = WIDE if version_of(driver) >= WIDE_SINCE else WIDTH
    return f"{name:<{width}}: {value}"
