"""VMs with the same changes and different values: a table of their destinations and new settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.values import Edit, Placement, edit_value
from vgpu_cfg.render.layout.lines import Column, fold, table, table_rows

_GAP = 2
_PROBABLY = "probably "
_BELOW = 8
_KEYS = {"PROFILE": "gpu", "CPUS": "cpus", "MEMORY": "memory"}
_COLUMNS = {
    "STEPS": Column("STEPS", is_right=True),
    "VM": Column("VM", is_flexible=True),
    "HOST": Column("HOST", is_flexible=True),
    "GPU": Column("GPU", is_flexible=True),
    "PROFILE": Column("PROFILE", is_flexible=True),
    "CPUS": Column("CPUS"),
    "MEMORY": Column("MEMORY"),
}


Values = Mapping[str, str]
"""The table's values of a VM, by the titles of its columns."""


@dataclass(frozen=True, slots=True)
class UnlikeVm:
    """A row: numbers of steps, names, the columns by their titles, and other differences."""

    steps: str
    names: str
    values: Values
    others: str


def is_tabled(change: Change, edit: Edit) -> bool:
    """Whether a column of the table shows an edit."""
    return change.face.equips and edit.key in _KEYS.values()


def values_of(changes: Sequence[tuple[int, Change]], placement: Placement | None) -> Values:
    """Return the possible columns for a VM."""
    values: dict[str, str] = {}
    if placement is not None:
        values["HOST"] = placement.host_name
        if placement.gpu_pci_ids:
            probably = "" if placement.is_certain else _PROBABLY
            values["GPU"] = f"{probably}{', '.join(placement.gpu_pci_ids)}"
    for title, key in _KEYS.items():
        told = [edit for _, change in changes for edit in change.edits if is_tabled(change, edit)]
        counts = Counter(edit_value(edit) for edit in told if edit.key == key)
        words = (value if count == 1 else f"{count} x {value}" for value, count in counts.items())
        if counts:
            values[title] = ", ".join(words)
    return values


def render_unlike(rows: Sequence[UnlikeVm], width: int) -> list[Text]:
    """Lay out the table; other differences are next to a row, or below it if there is no room."""
    titles = ("STEPS", "VM", *(title for title in _COLUMNS if any(title in row.values for row in rows)))
    cells = [[row.steps, row.names, *(row.values.get(title, "") for title in titles[2:])] for row in rows]
    columns = [_COLUMNS[title] for title in titles]
    gpus = [row.values.get("GPU", _PROBABLY) for row in rows]
    if "GPU" in titles and all(words.startswith(_PROBABLY) for words in gpus):
        columns[titles.index("GPU")] = Column("LIKELY GPU", is_flexible=True)
        cells = [[word.removeprefix(_PROBABLY) for word in own] for own in cells]
    others = max((len(row.others) for row in rows), default=0)
    is_beside = bool(others) and _width_of(table(columns, cells, width)) + _GAP + others <= width
    if is_beside:
        columns.append(Column("OTHER"))
        cells = [[*own, row.others] for own, row in zip(cells, rows, strict=True)]
    heading, *body = table_rows(columns, cells, width)
    lines = list(heading)
    for own, row in zip(body, rows, strict=True):
        lines += own
        lines += [] if is_beside else _below(row.others, width)
    return lines


def _width_of(lines: Sequence[Text]) -> int:
    return max((line.cell_len for line in lines), default=0)


def _below(words: str, width: int) -> Iterator[Text]:
    margin = " " * _BELOW
    for part in fold(Text(words), width - len(margin)) if words else ():
        yield Text(margin) + part
