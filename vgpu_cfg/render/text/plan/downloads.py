"""The downloads of a plan's guests on a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.model.guests.downloads import Download, short_pin
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.render.layout.lines import Cell, Column, table

_COLUMNS = (
    Column("DOWNLOAD", is_flexible=True),
    Column("PIN"),
    Column("KEY", drop=2),
    Column("VMS", is_flexible=True, drop=1),
)


def render_downloads(downloads: Sequence[Download], width: int) -> list[Text]:
    """Lay out a row for each; a row without a pin accepts any content."""
    rows: list[list[Cell]] = [[_source(one), _pin(one), one.key, fold_names(one.vms)] for one in downloads]
    return [Text(f"DOWNLOADS ({len(downloads)})", style="bold"), *table(_COLUMNS, rows, width)]


def _source(one: Download) -> str:
    words = (one.package, one.version, "from") if one.package else ()
    return " ".join(word for word in (*words, one.address, one.via and f"by {one.via}") if word)


def _pin(one: Download) -> Cell:
    if one.pin:
        return short_pin(one.pin)
    return "signed" if one.is_signed else Text("none", style="yellow")
