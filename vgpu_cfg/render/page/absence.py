"""A page for assumed absences: the estate now, in maintenance and after a failure, and every VM."""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import Any

from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.upkeep.absence import Absence, How
from vgpu_cfg.render.layout.lines import size
from vgpu_cfg.render.page.frame import Tile, moment_words, render_frame
from vgpu_cfg.render.views.estate.absence import view_absence
from vgpu_cfg.render.views.pictures.absence_picture import AbsencePicture


def render_absence_page(found: Absence, told: dict[str, Any], picture: AbsencePicture) -> str:
    """Write the page of it and of its JSON; any name in it stays text."""
    view = view_absence(found)
    moment = moment_words(datetime.fromisoformat(picture.before.read_at))
    return render_frame(
        "absence",
        title=view.title,
        about=f"{picture.before.server}, read {moment}; nothing was changed",
        tiles=tuple(_tiles(found)),
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


def _tiles(found: Absence) -> list[Tile]:
    sums = found.totals
    ways = sums.ways
    stun = "" if sums.longest_stun_ms is None else f"paused for up to {duration(sums.longest_stun_ms / 1000)}"
    down = ways[How.OFF] + ways[How.STAYS]
    cold = ways[How.COLD] + ways[How.RESTART]
    nowhere = sums.vms - sums.starts
    return [
        _tile(counted(sums.vms, "VM"), "affected"),
        Tile(f"{ways[How.VMOTION]:,}", "by vMotion", stun),
        Tile(f"{cold:,}", "moved while powered off", "in maintenance, then restarted"),
        Tile(f"{down:,}", "cannot be placed", "in maintenance", "bad" if down else ""),
        Tile(f"{nowhere:,}", "cannot restart", "after a failure", "bad" if nowhere else ""),
        _tile(
            counted(sum(found.loss.gpus.values()), "GPU"), f"lost, {size(found.loss.free_mib)} currently free"
        ),
    ]


def _tile(words: str, about: str) -> Tile:
    value, _, title = words.partition(" ")
    return Tile(value, title, about)
