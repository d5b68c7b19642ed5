"""Reservations on a terminal: each holder with its end, and the free GPUs over time."""

from __future__ import annotations

from datetime import datetime

from rich.text import Text

from vgpu_cfg.planning.pool.calendar import ReservationCalendar
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, fold, table

_ROWS = (
    Column("PLAN", is_flexible=True),
    Column("CLUSTER", is_flexible=True),
    Column("BOARD"),
    Column("GPUS", is_right=True),
    Column("FROM"),
    Column("UNTIL"),
    Column("STATE"),
    Column("RUNNING ON", is_right=True, drop=2),
    Column("BY", is_flexible=True, drop=1),
)
_FREE = (
    Column("CLUSTER", is_flexible=True),
    Column("BOARD"),
    Column("AT"),
    Column("GPUS", is_right=True),
    Column("IN USE", is_right=True),
    Column("RESERVED", is_right=True),
    Column("FREE", is_right=True),
)
NOTE = "Whole GPUs. IN USE is the number of GPUs used by VMs without a reservation. Enforced for plans only."


def render_reservations(found: ReservationCalendar, server: str, width: int) -> list[Text]:
    """Lay out all reservations, and the free GPUs at each of their beginnings and ends."""
    head = both_ends(Text(server, "bold"), Text(f"at {_time(found.now)} UTC"), width)
    lines = [*head, Text("")]
    if not found.rows:
        lines.append(Text("No GPUs are reserved."))
    else:
        rows: list[list[Cell]] = [
            [
                row.plan,
                row.cluster,
                row.board,
                str(row.gpus),
                _time(row.begins),
                _time(row.ends),
                row.state,
                str(row.running or ""),
                row.account,
            ]
            for row in found.rows
        ]
        lines += [Text("RESERVED", style="bold"), *table(_ROWS, rows, width), Text("")]
        lines += [Text("FREE OVER TIME", style="bold"), *table(_FREE, _free(found), width)]
        lines += fold(Text(f"  {NOTE}", "dim"), width, hang=2)
    for name in found.unread:
        lines += fold(
            Text(f"The alarm {name!r} was edited and no longer contains a valid reservation."), width
        )
    return lines


def _free(found: ReservationCalendar) -> list[list[Cell]]:
    return [
        [
            pool.cluster,
            pool.board,
            "now" if moment.at == found.now else _time(moment.at),
            str(moment.total),
            str(moment.staying),
            str(sum(gpus for _, gpus in moment.reserved)),
            Text(str(moment.free), style="red" if moment.free < 0 else ""),
        ]
        for pool in found.pools
        for moment in pool.moments
    ]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
