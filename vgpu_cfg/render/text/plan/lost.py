"""How VMs of a plan read whose hosts do not respond, where a command is about something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.changes.plan import LostHost
from vgpu_cfg.planning.remedies.lost_hosts import told_of
from vgpu_cfg.render.layout.lines import hanging

if TYPE_CHECKING:
    from rich.text import Text


def lost_lines(lost: Sequence[LostHost], width: int) -> list[Text]:
    """Lay out a line for each such host."""
    lines: list[Text] = []
    for one in lost:
        words = f"{one.host.name} {one.connection.words}: {'; '.join(told_of(one))}"
        lines += hanging("LOST", words, width, indent=0, style="yellow")
    return lines
