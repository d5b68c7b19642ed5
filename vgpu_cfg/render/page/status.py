"""The state of a plan's hosts and VMs, as one page: differences, value by value, with author and time."""

from __future__ import annotations

from datetime import datetime
from itertools import groupby
from typing import Any

from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.render.page.frame import Tile, moment_words, render_frame
from vgpu_cfg.render.views.estate.inventory import profile_text
from vgpu_cfg.render.views.status import StatusView, verdict_of


def render_status_page(view: StatusView, told: dict[str, Any]) -> str:
    """Write the page of a status and of its JSON; any name in it stays text."""
    place = ", ".join(part for part in (view.server, view.datacenter) if part)
    return render_frame(
        "status",
        title=f"{view.plan}: status",
        about=f"{place}, read {moment_words(datetime.fromisoformat(view.read_at))}",
        tiles=tuple(_tiles(view)),
        body="status.html.j2",
        shared=("changes", "seek"),
        data={"kind": "status-page", "format": 1, "told": told},
        more={
            "view": view,
            "groups": _groups(view.differences),
            "findings": view.findings,
            "moment": moment_words,
            "profiles": profile_text,
        },
    )


def _tiles(view: StatusView) -> list[Tile]:
    _, words = verdict_of(view)
    tiles = [
        Tile(
            view.waits or ("in sync" if view.is_in_sync else "not in sync"),
            "" if words in ("in sync", view.waits) else words,
        )
    ]
    for rows, noun in ((view.hosts, "host"), (view.vms, "VM")):
        if rows:
            differ = sum(not row.is_in_sync for row in rows)
            tiles.append(
                Tile(f"{differ} of {len(rows)}", f"{noun}s differ" if len(rows) > 1 else f"{noun} differs")
            )
    hands = sum(bool(one.by) for one in view.differences)
    tiles.append(Tile(f"{len(view.differences)}", "values differ", f"changed by known users: {hands}"))
    return tiles


def _groups(differences: tuple[Difference, ...]) -> list[tuple[str, str, list[Difference]]]:
    """Return the differences by their subject."""
    return [
        (kind, name, list(group))
        for (kind, name), group in groupby(differences, key=lambda one: (one.subject.kind, one.subject.name))
    ]
