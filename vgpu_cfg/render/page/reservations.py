"""Reservations as a page of the frame that all have: who holds what till when, and what is free then."""

from __future__ import annotations

from typing import Any

from vgpu_cfg.planning.pool.calendar import ReservationCalendar
from vgpu_cfg.render.page.frame import Tile, render_frame


def render_reservations_page(found: ReservationCalendar, server: str, told: dict[str, Any]) -> str:
    """Write the page of what is reserved and of its JSON; whatever stands in names is text in it."""
    states = [row.state for row in found.rows]
    least = min((moment.free for pool in found.pools for moment in pool.moments), default=0)
    tiles = (
        Tile(f"{states.count('now')}", "reservations now"),
        Tile(f"{states.count('later')}", "reservations later"),
        Tile(f"{least}", "GPUs free at the worst moment", "of one board", "bad" if least < 0 else ""),
    )
    return render_frame(
        "reservations",
        title=f"GPUs reserved at {server}",
        about=f"at {found.now:%Y-%m-%d %H:%M} UTC; whole GPUs, and vCenter enforces none of it",
        tiles=tiles,
        body="reservations.html.j2",
        shared=("changes",),
        data=told,
        more={"found": found},
    )
