"""An estate as one page: clusters, hosts, NUMA nodes and GPUs to scale, to search, to filter and to print.

Reservations as a page of the common frame: each holder with its end, and the then free GPUs.
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.pool.calendar import ReservationCalendar
from vgpu_cfg.render.layout.lines import size
from vgpu_cfg.render.page.frame import Tile, moment_words, render_frame
from vgpu_cfg.render.views.pictures.estate_map import EstateMap


def render_inventory_page(found: EstateMap) -> str:
    """Write the page; any name in it stays text."""
    sums = found.totals
    moment = moment_words(datetime.fromisoformat(found.read_at))
    idle = f"{sums.idle:,} idle, {sums.closed:,} closed"
    tiles = (
        Tile(f"{sums.hosts:,}", "hosts" if sums.hosts != 1 else "host", _of_clusters(found)),
        Tile(f"{sums.gpus:,}", "GPUs" if sums.gpus != 1 else "GPU", idle),
        Tile(f"{sums.vms:,}", "VMs on GPUs" if sums.vms != 1 else "VM on GPUs"),
        Tile(size(sums.free_mib), "framebuffer free", f"of {size(sums.memory_mib)}"),
        Tile(size(sums.lost_mib), "lost", "no profile can use it"),
        Tile(size(sums.bound_mib), "locked", "usable only by the vGPU size running on it"),
    )
    return render_frame(
        "inventory",
        title=f"{found.server}: GPUs",
        about=f"vCenter {found.version}, read {moment}",
        tiles=tiles,
        body="inventory.html.j2",
        shared=("wiring", "estate"),
        data={"kind": "inventory-map", "format": 1, **asdict(found)},
    )


def _of_clusters(found: EstateMap) -> str:
    return f"in {counted(sum(bool(name) for name, _ in found.clusters), 'cluster')}"


def render_reservations_page(found: ReservationCalendar, server: str, told: dict[str, Any]) -> str:
    """Write the page of reservations and of its JSON; any name in it stays text."""
    states = [row.state for row in found.rows]
    least = min((moment.free for pool in found.pools for moment in pool.moments), default=0)
    tiles = (
        Tile(f"{states.count('now')}", "current reservations"),
        Tile(f"{states.count('later')}", "future reservations"),
        Tile(f"{least}", "fewest free GPUs", "of any board", "bad" if least < 0 else ""),
    )
    return render_frame(
        "reservations",
        title=f"GPU reservations on {server}",
        about=f"at {found.now:%Y-%m-%d %H:%M} UTC; counted in whole GPUs, not enforced by vCenter",
        tiles=tiles,
        body="reservations.html.j2",
        shared=("changes",),
        data=told,
        more={"found": found},
    )
