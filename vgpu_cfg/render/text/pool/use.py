"""The use of GPUs on a terminal: a row per GPU, VM, plan or owner, hours of GPUs, and reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

from rich.text import Text

from vgpu_cfg.model.choices import UseBy, UseSort
from vgpu_cfg.model.observed.gpu_use import PastUse
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.pool.reservations import ReservationCalendar
from vgpu_cfg.planning.pool.summary import GpuPool, Hours, HoursRow
from vgpu_cfg.planning.pool.use import UseRow
from vgpu_cfg.render.layout.lines import (
    Cell,
    Column,
    abridged,
    both_ends,
    fold,
    fold_hosts,
    hanging,
    size,
    table,
    table_rows,
)
from vgpu_cfg.render.layout.most import ALL, USUAL, Most, foremost, others
from vgpu_cfg.render.views.estate.inventory import UseTable
from vgpu_cfg.render.views.run.run_steps import moment_text

UNMEASURED = "not measurable"
_COLUMNS = (
    Column("NOW", is_right=True),
    Column("MEMORY", is_right=True),
    Column("TEMP", is_right=True, drop=3),
    Column("POWER", is_right=True, drop=2),
    Column("MEAN", is_right=True),
    Column("PEAK", is_right=True, drop=4),
    Column("VMS", is_flexible=True, drop=1),
)
_VALUES: Mapping[UseSort, Callable[[UseRow], float | None]] = {
    UseSort.USE: lambda row: row.utilization_percent,
    UseSort.MEAN: lambda row: row.past_percent,
    UseSort.MEMORY: lambda row: row.memory_used_mib,
    UseSort.TEMPERATURE: lambda row: row.temperature_celsius,
    UseSort.POWER: lambda row: row.power_watts,
}
_MOST_ROWS, _MOST_RUNS = 40, 8
_ROWS = (
    Column("PLAN", is_flexible=True),
    Column("CLUSTER", is_flexible=True),
    Column("BOARD"),
    Column("GPUS", is_right=True),
    Column("FROM"),
    Column("UNTIL"),
    Column("STATE"),
    Column("RUNNING ON", is_right=True, drop=2),
    Column("BY", is_flexible=True, drop=1),
)
_FREE = (
    Column("CLUSTER", is_flexible=True),
    Column("BOARD"),
    Column("AT"),
    Column("GPUS", is_right=True),
    Column("IN USE", is_right=True),
    Column("RESERVED", is_right=True),
    Column("FREE", is_right=True),
)
NOTE = "Whole GPUs. IN USE is the number of GPUs used by VMs without a reservation. Enforced only for plans."


def _place(row: UseRow, sort: UseSort) -> tuple[float, str]:
    value = _VALUES[sort](row) if sort in _VALUES else None
    return (1.0 if value is None else -value), row.name


def render_use(
    pool: GpuPool, shown: UseTable, width: int, *, height: int | None = None, most: Most = USUAL
) -> list[Text]:
    """Lay out how GPUs are used, or say why that is not measurable.

    Unless all are shown, GPUs that nothing runs on and that did nothing are only counted. No more rows are
    shown than a window of `height` lines holds, the first of them.
    """
    if not pool.gpus:
        return []
    if pool.use_unread:
        return [Text(""), *hanging("USE", f"{UNMEASURED}: {pool.use_unread}", width, indent=0, style="bold")]
    measured = [row for row in shown.rows if row.unmeasured < row.gpus]
    rows = [row for row in measured if most.is_all or not _is_at_rest(row)]
    if shown.sort is not None:
        sort = shown.sort
        rows.sort(key=lambda row: _place(row, sort))
    told, left = foremost(rows, most=most if height is None else ALL)
    first = Column(shown.by.value.upper(), is_flexible=True)
    entries = table_rows((first, *_COLUMNS), [_cells(row, shown.by, most) for row in told], width)
    lines = [Text(""), Text("USE", style="bold")]
    notes = _folded(_notes(pool, shown, at_rest=len(measured) - len(rows)), width)
    if height is not None:
        entries, cut = _fitting(entries, height - len(lines) - len(notes) - 1)
        if cut:
            notes = _folded([f"{counted(cut, 'more row')}: enlarge the window or use --by."], width) + notes
    rest = others("rows", ("" for _ in left), width)
    return [*lines, *(line for entry in entries for line in entry), *rest, *notes]


def _is_at_rest(row: UseRow) -> bool:
    return not row.vms and not row.utilization_percent and not row.peak_percent


def _fitting(entries: list[list[Text]], room: int) -> tuple[list[list[Text]], int]:
    """Return as many entries as have room, the headings and one at least, and how many rows were left out."""
    used = 0
    for index, entry in enumerate(entries):
        used += len(entry)
        if used > room and index > 1:
            return entries[:index], len(entries) - index
    return entries, 0


def _cells(row: UseRow, by: UseBy, most: Most) -> list[Cell]:
    has_none = row.shared == row.gpus and by is not UseBy.GPU
    return [
        row.name or f"(no {by})",
        "shared" if has_none else percent(row.utilization_percent),
        "" if row.memory_used_mib is None else size(row.memory_used_mib),
        "" if row.temperature_celsius is None else f"{row.temperature_celsius} °C",
        "" if row.power_watts is None else f"{row.power_watts} W",
        "" if row.past_percent is None else percent(row.past_percent),
        "" if row.peak_percent is None else percent(row.peak_percent),
        abridged(sorted(row.vms), most.runs) if by is not UseBy.VM else "",
    ]


def percent(value: float | None) -> str:
    """Write a percentage, or that there is none."""
    return UNMEASURED if value is None else f"{value:.1f} %"


def over(past: PastUse) -> str:
    """Say over how long something was measured."""
    days = past.span_seconds / 86_400
    return f"{days:.0f} days" if days >= 1.5 else duration(past.span_seconds)


def _notes(pool: GpuPool, shown: UseTable, *, at_rest: int) -> list[str]:
    pasts = [gpu.use.past for gpu in pool.gpus if gpu.use is not None and gpu.use.past is not None]
    notes = []
    if at_rest:
        do = counted(at_rest, "unused GPU is", "unused GPUs are")
        notes.append(f"{do} not listed; add --verbose to list all.")
    if pasts:
        longest = max(pasts, key=lambda past: past.span_seconds)
        many = counted(longest.samples, "sample")
        notes.append(f"MEAN and PEAK cover the last {over(longest)}, in {many}.")
    if pool.past_unread:
        notes.append(f"Long-term usage is {UNMEASURED}: {pool.past_unread}.")
    notes += _unmeasured(pool, shown)
    if any(row.shared for row in shown.rows):
        notes.append("Counters are per GPU; usage of a shared GPU cannot be attributed to its VMs.")
    return notes


def _unmeasured(pool: GpuPool, shown: UseTable) -> Iterator[str]:
    unknown = [gpu for gpu in pool.gpus if gpu.use is None]
    if unknown:
        are = "is" if len(unknown) == 1 else "are"
        where = fold_hosts(dict.fromkeys(gpu.host for gpu in unknown))
        counts = f"{len(unknown)} of {counted(len(pool.gpus), 'GPU')}"
        yield f"{counts} {are} {UNMEASURED}: vCenter reports no data for them ({where})."
    names = [row.name or f"(no {shown.by})" for row in shown.rows if 0 < row.gpus == row.unmeasured]
    if names and shown.by is not UseBy.GPU:
        yield f"The usage of {fold_hosts(names)} is {UNMEASURED}."


def _folded(notes: Sequence[str], width: int) -> list[Text]:
    return [line for note in notes for line in fold(Text(f"  {note}", style="dim"), width, hang=2)]


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
        lines += table(columns, [_hour_cells(row, total, by) for row in told], width)
        lines += others("rows", ("" for _ in rest), width, where="--csv lists all")
    return [*lines, *_hour_notes(found, width)]


def _hour_cells(row: HoursRow, total: float, by: str) -> list[Cell]:
    return [
        row.name or f"(no {by.partition(':')[2] or by})",
        f"{row.gpu_hours:,.1f}",
        f"{100 * row.gpu_hours / total:.0f} %" if total else "",
        f"{row.device_hours:,.1f}",
        abridged(sorted(row.vms), _MOST_RUNS) if by != "vm" else "",
    ]


def _hour_notes(found: Hours, width: int) -> list[Text]:
    notes = [
        (
            "A VM uses its GPUs while powered on. Calculated from the VMs' current devices; deleted VMs "
            "are not counted."
        )
    ]
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
            f"{counted(len(found.uncounted), 'profile')} not in the catalog, counted as whole GPUs: {names}."
        )
    return [line for note in notes for line in fold(Text(f"  {note}", style="dim"), width, hang=2)]


def render_reservations(found: ReservationCalendar, server: str, width: int) -> list[Text]:
    """Lay out all reservations, and the free GPUs at each of their beginnings and ends."""
    head = both_ends(Text(server, "bold"), Text(f"at {_time(found.now)} UTC"), width)
    lines = [*head, Text("")]
    if not found.rows:
        lines.append(Text("No GPUs are reserved."))
    else:
        rows: list[list[Cell]] = [
            [
                row.plan,
                row.cluster,
                row.board,
                str(row.gpus),
                _time(row.begins),
                _time(row.ends),
                row.state,
                str(row.running or ""),
                row.account,
            ]
            for row in found.rows
        ]
        lines += [Text("RESERVED", style="bold"), *table(_ROWS, rows, width), Text("")]
        lines += [Text("FREE OVER TIME", style="bold"), *table(_FREE, _free(found), width)]
        lines += fold(Text(f"  {NOTE}", "dim"), width, hang=2)
    for name in found.unread:
        lines += fold(
            Text(f"The alarm {name!r} was edited and no longer contains a valid reservation."), width
        )
    return lines


def _free(found: ReservationCalendar) -> list[list[Cell]]:
    return [
        [
            pool.cluster,
            pool.board,
            "now" if moment.at == found.now else _time(moment.at),
            str(moment.total),
            str(moment.staying),
            str(sum(gpus for _, gpus in moment.reserved)),
            Text(str(moment.free), style="red" if moment.free < 0 else ""),
        ]
        for pool in found.pools
        for moment in pool.moments
    ]


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"
