"""GPU-hours: a row per plan, folder or owner, and the reach of vCenter's history."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.pool.hours import Hours, HoursRow
from vgpu_cfg.render.layout.lines import Cell, Column, abridged, both_ends, fold, table
from vgpu_cfg.render.layout.most import others
from vgpu_cfg.render.views.run.run_steps import moment_text

_MOST_ROWS, _MOST_RUNS = 40, 8


def render_hours(found: Hours, by: str, width: int, *, server: str) -> list[Text]:
    """Lay out who held how much; of very many rows and names the first."""
    total = sum(row.gpu_hours for row in found.rows)
    left = Text(f"{total:,.1f} GPU-hours", "bold")
    right = Text(f"{server}, {moment_text(found.since)} to {moment_text(found.until)}", "dim")
    columns = (
        Column(by.partition(":")[2].upper() or by.upper(), is_flexible=True),
        Column("GPU-HOURS", is_right=True),
        Column("SHARE", is_right=True, drop=1),
        Column("DEVICE-HOURS", is_right=True, drop=2),
        Column("VMS", is_flexible=True, drop=3),
    )
    lines = both_ends(left, right, width)
    if found.rows:
        told, rest = found.rows[:_MOST_ROWS], found.rows[_MOST_ROWS:]
        lines += table(columns, [_cells(row, total, by) for row in told], width)
        lines += others("rows", ("" for _ in rest), width, where="--csv lists all")
    return [*lines, *_notes(found, width)]


def _cells(row: HoursRow, total: float, by: str) -> list[Cell]:
    return [
        row.name or f"(no {by.partition(':')[2] or by})",
        f"{row.gpu_hours:,.1f}",
        f"{100 * row.gpu_hours / total:.0f} %" if total else "",
        f"{row.device_hours:,.1f}",
        abridged(sorted(row.vms), _MOST_RUNS) if by != "vm" else "",
    ]


def _notes(found: Hours, width: int) -> list[Text]:
    notes = ["A VM uses its GPUs while powered on. Based on current devices; deleted VMs are not counted."]
    if found.unread:
        notes.append(f"Events could not be read: {found.unread}. Only the uptime of running VMs is counted.")
    elif found.reaches is not None:
        notes.append(
            f"The oldest vCenter event is from {moment_text(found.reaches)}. For earlier times, only VMs "
            "that have been running ever since are counted."
        )
    if found.uncounted:
        names = ", ".join(found.uncounted)
        notes.append(
            f"{counted(len(found.uncounted), 'profile')} not in catalog, counted as whole GPUs: {names}."
        )
    return [line for note in notes for line in fold(Text(f"  {note}", style="dim"), width, hang=2)]
