"""The fate of VMs if an object were away, on a terminal."""

from __future__ import annotations

from collections.abc import Callable

from rich.text import Text

from vgpu_cfg.planning.upkeep.absence import Absence
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, hanging, table
from vgpu_cfg.render.views.estate.absence import AbsenceRow, view_absence

_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOST"),
    Column("DEVICES", is_flexible=True, drop=1),
    Column("IN MAINTENANCE", is_flexible=True),
    Column("STUN", is_right=True),
    Column("AFTER A FAILURE", is_flexible=True),
)
_STYLES = {"": "", "warn": "yellow", "bad": "red"}


def render_absence(
    found: Absence, server: str, width: int, completed: Callable[[str], str] = str
) -> list[Text]:
    """Lay out a row for each VM with GPUs or NICs of the host, and the others in one line.

    `completed` adds the options of this command to the one that comes next.
    """
    view = view_absence(found)
    lines = both_ends(Text(view.title, style="bold"), Text(server, style="dim"), width)
    if view.rows:
        lines += [Text(""), *table(_COLUMNS, [_cells(one) for one in view.rows], width)]
    lines.append(Text(""))
    for label, words in view.lines:
        lines += hanging(label, words, width, indent=0)
    return lines + hanging("DO", completed(view.next_step), width, indent=0, style="bold")


def _cells(one: AbsenceRow) -> list[Cell]:
    way = Text(one.way, style=_STYLES[one.way_tone])
    after = Text(one.after, style=_STYLES[one.after_tone])
    return [one.vm, one.host, one.holds, way, one.stun, after]
