"""How a table of what is cordoned reads."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from vgpu_cfg.render.layout.lines import Column, table
from vgpu_cfg.render.views.estate.cordons import CordonRow

_COLUMNS = (
    Column("HOST"),
    Column("GPU"),
    Column("REASON", is_flexible=True),
    Column("BY", is_flexible=True),
    Column("SINCE"),
)


def render_cordons(rows: Sequence[CordonRow], width: int) -> list[Text]:
    """Lay out the cordons; nothing where there is none."""
    if not rows:
        return []
    cells = [[row.host, row.gpu or "all", row.reason, row.by, _since(row.since)] for row in rows]
    return [Text(""), Text("CORDONED", style="bold"), *table(_COLUMNS, cells, width)]


def _since(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}" if text else ""
