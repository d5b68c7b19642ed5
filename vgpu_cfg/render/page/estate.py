"""Pages of an estate: clusters, hosts and GPUs to scale, reservations, assumed absences, and health."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from datetime import datetime
from typing import Any

from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.doctor.ailments import HEALTH, Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.planning.doctor.ours import Ours
from vgpu_cfg.planning.pool.reservations import ReservationCalendar
from vgpu_cfg.planning.upkeep.absence import Absence, How
from vgpu_cfg.render.layout.lines import size
from vgpu_cfg.render.page.frame import Tile, Tone, moment_words, render_frame
from vgpu_cfg.render.views.estate.absence import view_absence
from vgpu_cfg.render.views.pictures.estate_map import EstateMap
from vgpu_cfg.render.views.pictures.plan_picture import AbsencePicture

_LEVEL_TONES: dict[Level, Tone] = {
    Level.BROKEN: "bad",
    Level.RISK: "warn",
    Level.WASTE: "",
    Level.WAITING: "",
}
_LEVEL_WORDS = {
    Level.BROKEN: "broken",
    Level.RISK: "at risk",
    Level.WASTE: "wasted",
    Level.WAITING: "waiting",
}


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
        Tile(size(sums.bound_mib), "locked", "usable only by vGPUs of the size already running on the GPU"),
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


def render_absence_page(found: Absence, told: dict[str, Any], picture: AbsencePicture) -> str:
    """Write the page of it and of its JSON; any name in it stays text."""
    view = view_absence(found)
    moment = moment_words(datetime.fromisoformat(picture.before.read_at))
    return render_frame(
        "absence",
        title=view.title,
        about=f"{picture.before.server}, read {moment}; nothing was changed",
        tiles=tuple(_absence_tiles(found)),
        body="absence.html.j2",
        shared=("wiring", "estate", "changes", "turns"),
        data={
            "kind": "absence-page",
            "format": 1,
            "told": told,
            "before": asdict(picture.before),
            "turns": [
                asdict(turn) | {"marks": [asdict(mark) | {"sign": mark.sign} for mark in turn.marks]}
                for turn in picture.turns
            ],
        },
        more={"view": view, "turns": picture.turns},
    )


def _absence_tiles(found: Absence) -> list[Tile]:
    sums = found.totals
    ways = sums.ways
    stun = "" if sums.longest_stun_ms is None else f"paused for up to {duration(sums.longest_stun_ms / 1000)}"
    down = ways[How.OFF] + ways[How.STAYS]
    cold = ways[How.COLD] + ways[How.RESTART]
    nowhere = sums.vms - sums.starts
    return [
        Tile.of(counted(sums.vms, "VM"), "affected"),
        Tile(f"{ways[How.VMOTION]:,}", "by vMotion", stun),
        Tile(f"{cold:,}", "moved while powered off", "in maintenance, then restarted"),
        Tile(f"{down:,}", "cannot be placed", "in maintenance", "bad" if down else ""),
        Tile(f"{nowhere:,}", "cannot restart", "after a failure", "bad" if nowhere else ""),
        Tile.of(
            counted(sum(found.loss.gpus.values()), "GPU"), f"lost, {size(found.loss.free_mib)} currently free"
        ),
    ]


def render_health_page(health: Health, told: dict[str, Any]) -> str:
    """Write the page of a health and of its JSON; any name in it stays text."""
    examined = Tile(str(health.gpus), "GPUs examined", f"{health.hosts} hosts, {health.vms} GPU VMs")
    return render_frame(
        "doctor",
        title=f"{told['server']}: health",
        about=f"read {moment_words(datetime.fromisoformat(told['read_at']))}",
        tiles=(*_level_tiles(health.count, HEALTH), examined),
        body="doctor.html.j2",
        shared=("changes", "seek"),
        data={"kind": "doctor-page", "format": 1, "told": told},
        more={"health": health, "words": _LEVEL_WORDS, "told": told},
    )


def render_ours_page(ours: Ours, told: dict[str, Any]) -> str:
    """Write the page of everything of vgpu-cfg at a vCenter, and of its JSON; any name in it stays text."""
    plans = Tile(str(len(ours.plans)), "plans", counted(sum(row.vms for row in ours.plans), "VM"))
    levels = (Level.BROKEN, Level.RISK, Level.WAITING)
    return render_frame(
        "doctor",
        title=f"{ours.server}: status of vgpu-cfg",
        about=f"read {moment_words(ours.now)}",
        tiles=(*_level_tiles(ours.count, levels), plans),
        body="ours.html.j2",
        shared=("changes", "seek"),
        data={"kind": "status-page", "format": 1, "told": told},
        more={"health": ours, "words": _LEVEL_WORDS, "told": told},
    )


def _level_tiles(count: Callable[[Level], int], levels: Iterable[Level]) -> Iterator[Tile]:
    for level in levels:
        tone = _LEVEL_TONES[level] if count(level) else "good"
        yield Tile(str(count(level)), _LEVEL_WORDS[level], tone=tone)
