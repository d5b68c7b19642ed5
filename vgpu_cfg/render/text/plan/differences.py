"""Differences on a terminal: a row each, with subject, wanted and found value, author and time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, islice

from rich.text import Text

from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.render.layout.lines import Cell, Column, fold, table_rows, without_domain
from vgpu_cfg.render.layout.most import Most, foremost, others

MOST_SHOWN = 6
"""So many differences of one VM or host are shown unless all are asked for."""

_COLUMNS = (
    Column("WHAT", is_flexible=True),
    Column("EXPECTED", is_flexible=True),
    Column("FOUND", is_flexible=True),
    Column("CHANGED BY", is_flexible=True),
    Column("WHEN"),
)
UNKNOWN = "unknown"
_INDENT = 4


def render_differences(differences: Sequence[Difference], width: int, most: Most) -> list[Text]:
    """Lay out the differences under their subjects, and below them why an author is unknown."""
    hosts = without_domain(one.subject.name for one in differences if one.subject.kind == "host")
    groups = [
        (hosts[name] if kind == "host" else name, list(group))
        for (kind, name), group in groupby(differences, key=lambda one: (one.subject.kind, one.subject.name))
    ]
    told, left = foremost(groups, most=most)
    each = len(differences) if most.is_all else MOST_SHOWN
    cells = [_cells(one) for _, group in told for one in group[:each]]
    heading, *rows = table_rows(_COLUMNS, cells, width, indent=_INDENT)
    lines = heading
    following = iter(rows)
    for name, group in told:
        lines.append(Text(f"  {name}", "yellow"))
        lines += (line for row in islice(following, min(each, len(group))) for line in row)
        if len(group) > each:
            lines.append(Text(f"    and {len(group) - each} more"))
    lines += others("hosts and VMs", ("" for _ in left), width)
    for reason in dict.fromkeys(one.why_unknown for one in differences if one.why_unknown):
        lines += [Text("  ") + part for part in fold(Text(f"{UNKNOWN}: {reason}", "dim"), width - 2, hang=2)]
    return lines


def _cells(one: Difference) -> list[Cell]:
    who = one.by or (UNKNOWN if one.why_unknown else "")
    when = f"{one.at:%Y-%m-%d %H:%M}" if one.at is not None else ""
    return [one.what, _value(one.wanted), _value(one.found), who, when]


def _value(text: str | None) -> str:
    return "none" if text is None else text
