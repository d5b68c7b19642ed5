"""An estate's health, or everything of vgpu-cfg there, as one page: a section for each kind of finding."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vgpu_cfg.planning.doctor.ailments import HEALTH, Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.planning.doctor.ours import Ours
from vgpu_cfg.render.page.frame import Tile, Tone, moment_words, render_frame

_TONES: dict[Level, Tone] = {Level.BROKEN: "bad", Level.RISK: "warn", Level.WASTE: "", Level.WAITING: ""}
_WORDS = {Level.BROKEN: "broken", Level.RISK: "at risk", Level.WASTE: "wasted", Level.WAITING: "waiting"}


def render_health_page(health: Health, told: dict[str, Any]) -> str:
    """Write the page of a health and of its JSON; any name in it stays text."""
    tiles = [
        Tile(str(health.count(level)), _WORDS[level], tone=_TONES[level] if health.count(level) else "good")
        for level in HEALTH
    ]
    tiles.append(Tile(str(health.gpus), "GPUs examined", f"{health.hosts} hosts, {health.vms} GPU VMs"))
    return render_frame(
        "doctor",
        title=f"{told['server']}: health",
        about=f"read {moment_words(datetime.fromisoformat(told['read_at']))}",
        tiles=tuple(tiles),
        body="doctor.html.j2",
        shared=("changes", "seek"),
        data={"kind": "doctor-page", "format": 1, "told": told},
        more={"health": health, "words": _WORDS, "told": told},
    )


def render_ours_page(ours: Ours, told: dict[str, Any]) -> str:
    """Write the page of everything of vgpu-cfg at a vCenter, and of its JSON; any name in it stays text."""
    tiles = [
        Tile(str(ours.count(level)), _WORDS[level], tone=_TONES[level] if ours.count(level) else "good")
        for level in (Level.BROKEN, Level.RISK, Level.WAITING)
    ]
    tiles.append(Tile(str(len(ours.plans)), "plans", f"{sum(row.vms for row in ours.plans)} VMs"))
    return render_frame(
        "doctor",
        title=f"{ours.server}: status of vgpu-cfg",
        about=f"read {moment_words(ours.now)}",
        tiles=tuple(tiles),
        body="ours.html.j2",
        shared=("changes", "seek"),
        data={"kind": "status-page", "format": 1, "told": told},
        more={"health": ours, "words": _WORDS, "told": told},
    )
