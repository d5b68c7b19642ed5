"""The answers of several contexts or plans: a heading over each, and a table of sums under all."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.render.layout.lines import Cell, Column, fold, table
from vgpu_cfg.render.text.pool.gpus import render_pool_rows
from vgpu_cfg.render.views.several import OneOfSeveral, Several


def heading(noun: str, name: str, width: int) -> list[Text]:
    """Lay out the heading of one of them, which is recognized by its beginning."""
    return fold(Text.assemble((f"== {noun} ", "dim"), (name, "bold")), width, hang=3)


def render_sums(view: Several, width: int) -> list[Text]:
    """Lay out a row for each, those without an answer, too, and the sums; GPUs also by board and mode."""
    lines = [Text("")]
    if view.pool:
        lines += [Text("TOTAL POOL", style="bold"), *render_pool_rows(view.pool, width), Text("")]
    total = view.total
    columns = (
        Column(view.noun.upper(), is_flexible=True),
        Column("SERVER", is_flexible=True, drop=1),
        *(Column(key.replace("_", " ").upper(), is_right=True) for key in total),
        Column("REASON", is_flexible=True),
    )
    rows = [[row.name, row.server, *_figures(row, total), _why_not(row)] for row in view.rows]
    count = f"{len(view.answered)} of {len(view.rows)}" if view.answered != view.rows else "all"
    sums: list[Cell] = [Text(str(number), style="bold") for number in total.values()]
    rows.append([Text(count, style="bold"), "", *sums, ""])
    return [*lines, *table(columns, rows, width, indent=0), *_notes(view, width)]


def _notes(view: Several, width: int) -> list[Text]:
    """Explain the limits of the sums: plans of one vCenter do not know of each other."""
    servers = [row.server for row in view.answered]
    if view.noun != "plan" or view.command != "plan" or len(set(servers)) == len(servers):
        return []
    words = "each plan is based on the current state; plans may compete for the same free capacity in vCenter"
    return fold(Text(f"  {words}", style="dim"), width, hang=2)


def _figures(row: OneOfSeveral, total: dict[str, int]) -> list[Cell]:
    return [str(row.figures[key]) if key in row.figures else "" for key in total]


def _why_not(row: OneOfSeveral) -> Cell:
    if row.figures:
        return ""
    return Text(row.error.message if row.error is not None else "a bug in vgpu-cfg", style="red")
