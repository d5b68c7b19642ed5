"""How the hosts of a run read: a row each, and under it what was not read back as wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.text import Text

from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.layout.lines import Cell, Column, fold, table_rows, without_domain
from vgpu_cfg.render.layout.many import foremost, others
from vgpu_cfg.render.views.run.host_result import HostRow, reading_text

_COLUMNS = (
    Column("HOST", is_flexible=True),
    Column("STATE"),
    Column("SET", is_right=True),
    Column("REBOOTS", is_right=True),
    Column("COLD BOOTS", is_right=True),
    Column("READ BACK", is_flexible=True),
    Column("TIME", is_right=True),
)


def render_hosts(rows: Sequence[HostRow], width: int) -> list[Text]:
    """Lay out a row per host, and under it what was not read back as wanted; count those of very many."""
    if not rows:
        return []
    told, left = foremost(rows, _is_as_planned)
    shortened = without_domain(row.name for row in told)
    heading, *laid_out = table_rows(_COLUMNS, [_cells(row, shortened) for row in told], width)
    lines = heading
    for row, shown in zip(told, laid_out, strict=True):
        lines += shown
        for one in row.unsettled:
            words = Text(f"~ {reading_text(one)}", "yellow")
            lines += [Text("    ") + part for part in fold(words, width - 4, hang=2)]
    return lines + others("hosts", (row.state for row in left), width, where="in the journal")


def _is_as_planned(row: HostRow) -> bool:
    return row.state == "ready" and not row.standing and not row.unsettled


def _cells(row: HostRow, shortened: Mapping[str, str]) -> list[Cell]:
    styles = {"ready": "green", "failed": "bold red", "waiting": "magenta"}
    settled = len(row.readings) - len(row.unsettled)
    read = f"{settled} of {len(row.readings)} as wanted" if row.readings else ""
    return [
        shortened[row.name],
        Text(row.state, styles.get(row.state, "")),
        str(row.set),
        str(row.reboots or ""),
        str(row.cold_boots or ""),
        read,
        duration(row.seconds) if row.seconds else "",
    ]
