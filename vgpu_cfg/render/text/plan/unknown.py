"""How what is not known reads: a block of its own, beside what is changed and what is disturbed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import hanging
from vgpu_cfg.render.views.plan.unknown import UnknownRow

if TYPE_CHECKING:
    from rich.text import Text


def render_unknown(rows: Sequence[UnknownRow], width: int) -> list[Text]:
    """Say what is not known of which hosts, what it could come to, and who tells it; nothing where all is."""
    lines: list[Text] = []
    for number, row in enumerate(rows):
        label = "" if number else "UNKNOWN"
        lines += hanging(label, _words(row), width, indent=0, label_width=7, style="bold yellow")
    return lines


def _words(row: UnknownRow) -> str:
    is_one_host, is_one = len(row.hosts) == 1, row.many == 1
    whose = "its shell" if is_one_host else "their shells"
    told = f"told by {whose} only" if row.is_of_shell else "not read"
    each = "" if is_one_host else " each"
    at_most = row.at_most
    if at_most.startswith("up to"):
        at_most += each
    if at_most.startswith(("up to", "no restart")):
        at_most += f" should {'it' if is_one else 'they'} differ"
    what = f"{counted(row.many, 'setting')}{' of' if is_one_host else ' each of'} {fold_names(row.hosts)}"
    return f"{what}, {told}: {', '.join(row.settings)}; {at_most}; {row.remedy}"
