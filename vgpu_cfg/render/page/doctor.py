"""The health of an estate as one page: a section for each kind of finding, with a search over all objects."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from vgpu_cfg.planning.doctor.ailments import Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.render.page.frame import Tile, Tone, moment_words, render_frame

_TONES: dict[Level, Tone] = {Level.BROKEN: "bad", Level.RISK: "warn", Level.WASTE: ""}
_WORDS = {Level.BROKEN: "broken", Level.RISK: "at risk", Level.WASTE: "wasted"}


def render_health_page(health: Health, told: dict[str, Any]) -> str:
    """Write the page of a health and of its JSON; any name in it stays text."""
    tiles = [
        Tile(str(health.count(level)), _WORDS[level], tone=_TONES[level] if health.count(level) else "good")
        for level in Level
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
