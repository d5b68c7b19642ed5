"""The help of all commands, drawn as Typer draws that of one, without loading what only that needs.

Typer's own drawing loads Markdown, syntax colours and tracebacks, which takes longer than all the rest.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from vgpu_cfg.render.layout.console import make_console

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple[str, ...]
"""A line of a panel: the typed words, in one or more columns, then their purpose."""


def print_overview(usage: str, purpose: str, panels: Mapping[str, Sequence[Row]]) -> None:
    """Print the program's usage, its purpose, and each panel's rows under its heading."""
    console = make_console(sys.stdout)
    console.print(Padding(Text(usage, style="bold yellow"), 1))
    console.print(Padding(Text(purpose), (0, 1, 1, 1)))
    names = [row[0] for rows in panels.values() for row in rows if len(row) == 2]
    for heading, rows in panels.items():
        console.print(_panel(heading, rows, max(map(len, names))))


def _panel(heading: str, rows: Iterable[Row], widest: int) -> Panel:
    table = Table(box=None, show_header=False, expand=True, pad_edge=False, padding=(0, 1))
    for index, row in enumerate(rows):
        if index == 0:
            table.add_column(style="bold cyan", no_wrap=True, min_width=widest if len(row) == 2 else None)
            for _ in row[1:-1]:
                table.add_column(style="bold green", no_wrap=True)
            table.add_column(ratio=1)
        table.add_row(*(Text(cell) for cell in row))
    return Panel(table, title=heading, title_align="left", border_style="dim")
