"""Everything of vgpu-cfg at a vCenter on one screen: findings, plans, reservations, and runs."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.model.wording import age, counted
from vgpu_cfg.planning.doctor.ailments import Level
from vgpu_cfg.planning.doctor.ours import Ours, PlanRow, Ran
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, hanging, table
from vgpu_cfg.render.layout.most import MOST_LINES
from vgpu_cfg.render.text.doctor import STYLES, render_groups
from vgpu_cfg.render.text.run.history import render_history
from vgpu_cfg.render.views.run.past_runs import view_run

_PLANS = (
    Column("PLAN", is_flexible=True),
    Column("VCENTER", is_flexible=True),
    Column("VMS", is_right=True),
    Column("ON", is_right=True),
    Column("HOSTS", is_right=True, drop=1),
    Column("STATE", is_flexible=True),
    Column("LAST RUN", is_flexible=True),
    Column("FOLDER", is_flexible=True, drop=2),
)
_FEW = (6, 3, 2, 1)
"""Rows of plans and runs on the first screen, the first number that fits; findings get the rest of it."""
NOTE = (
    "STATE compares only devices with the owner marks. To compare everything, run `vgpu-cfg status` with the "
    "plan file."
)


def render_ours(ours: Ours, width: int, *, next_command: str, with_all: bool = False) -> list[Text]:
    """Lay all of it out; without `with_all` it fits one screen, however large the estate is."""
    notes = [line for text in ours.notes for line in hanging("NOTE", text, width, indent=0, label_width=7)]
    if ours.is_nothing:
        said = (
            f"Nothing at {ours.server} belongs to vgpu-cfg: no plans, locks, cordons, reservations, or runs."
        )
        lines = hanging("NOTHING", said, width, indent=0, label_width=7)
        return [*lines, *hanging("NEXT", next_command, width, indent=0, label_width=7), *notes]
    vms = sum(row.vms for row in ours.plans)
    seen = f"{counted(len(ours.plans), 'plan')}, {counted(vms, 'VM')} of plans, {ours.now:%Y-%m-%d %H:%M} UTC"
    lines = both_ends(Text(f"vgpu-cfg at {ours.server}", "bold"), Text(seen, "dim"), width)
    counts = [f"{ours.count(level)} {level.value}" for level in Level if ours.count(level)]
    lines.append(Text(", ".join(counts) or "nothing requires action, nothing is waiting"))
    if with_all:
        groups = render_groups(ours.groups, 0, width, with_all=True)
        return [*lines, *groups, *_rest(ours, width, None), *notes]
    for few in _FEW:
        rest = [*_rest(ours, width, few), *notes[:few]]
        groups = render_groups(ours.groups, MOST_LINES - len(lines) - len(rest), width, with_all=False)
        if len(lines) + len(groups) + len(rest) <= MOST_LINES:
            break
    return [*lines, *groups, *rest]


def _rest(ours: Ours, width: int, few: int | None) -> list[Text]:
    """Lay out plans, reservations and runs: a few of each, or all, the others counted."""
    lines: list[Text] = []
    if ours.plans:
        plans = ours.plans[:few]
        lines += [Text(""), *table(_PLANS, [_cells(row, ours) for row in plans], width)]
        lines += _more(len(ours.plans) - len(plans), "plan")
        lines += hanging("NOTE", NOTE, width, indent=0, label_width=7, style="dim")
    if ours.reserved:
        reserved = ours.reserved[:few]
        lines.append(Text(""))
        for one in reserved:
            lines += hanging("HELD", one, width, indent=0, label_width=7)
        lines += _more(len(ours.reserved) - len(reserved), "reservation")
    if ours.runs:
        runs = ours.runs[:few]
        rows = [view_run(run.entry, run.began_at, run.ended_at, ()) for run in runs]
        lines += [Text(""), *render_history(rows, width, server="last 7 days", notes=())]
        lines += _more(len(ours.runs) - len(runs), "run")
    return lines


def _more(count: int, noun: str) -> Sequence[Text]:
    return (
        [Text(f"and {count} more {noun}{'' if count == 1 else 's'} (-v shows all)", "dim")] if count else []
    )


def _cells(row: PlanRow, ours: Ours) -> list[Cell]:
    style = "green" if row.level is None else STYLES[row.level]
    return [
        row.name,
        row.server,
        str(row.vms),
        str(row.on),
        str(row.hosts),
        Text(row.state, style),
        _last(row.last, ours),
        ", ".join(row.folders),
    ]


def _last(run: Ran | None, ours: Ours) -> str:
    if run is None:
        return "not in the last 30 days"
    row = view_run(run.entry, run.began_at, run.ended_at, ())
    return f"{row.command} {row.result or 'end unknown'}, {age((ours.now - run.at).total_seconds())} ago"
