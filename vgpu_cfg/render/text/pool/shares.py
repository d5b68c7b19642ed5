"""How the table of shares reads: who holds how much of the GPUs, and how much of his share is left."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.pool.quotas import ENFORCES_NONE, ShareUse
from vgpu_cfg.render.layout.lines import Cell, Column, fold, table

_COLUMNS = (
    Column("WHO", is_flexible=True),
    Column("BOARD", is_flexible=True),
    Column("SHARE", is_right=True),
    Column("HELD", is_right=True),
    Column("LEFT", is_right=True),
    Column("VMS", is_flexible=True, drop=1),
)


def render_shares(uses: Sequence[ShareUse], width: int) -> list[Text]:
    """Lay out the shares; nothing where no file of shares holds."""
    if not uses:
        return []
    cells: list[list[Cell]] = [
        [
            use.share.holder,
            use.share.called,
            use.worded(use.limit),
            use.worded(use.held),
            Text(use.worded(max(0, use.limit - use.held)), style="red" if use.held > use.limit else ""),
            fold_names(use.vms),
        ]
        for use in uses
    ]
    note = f"  A VM holds its GPUs as long as it runs. Plans are held to these shares; {ENFORCES_NONE}."
    lines = [Text(""), Text("SHARES", style="bold"), *table(_COLUMNS, cells, width)]
    return [*lines, *fold(Text(note, "dim"), width, hang=2)]
