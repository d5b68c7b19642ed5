"""The free room on a terminal: how many more VMs fit, host by host, and the sizes that a model needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta

from rich.text import Text

from vgpu_cfg.model.observed.inventory import Connection, Host
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration, listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.pool.fit import HostFit
from vgpu_cfg.planning.pool.gpus import PooledGpu
from vgpu_cfg.planning.pool.quotas import ENFORCES_NONE
from vgpu_cfg.planning.pool.shapes import Fits
from vgpu_cfg.planning.sizing import Bracket, Candidate, Model, RoomSheet, Sharding, StandingHosts
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, fold_hosts, hanging, size, table
from vgpu_cfg.render.layout.most import Most, first_screen, foremost, others
from vgpu_cfg.render.text.plan.whole import lost_lines
from vgpu_cfg.render.views.estate.inventory import FitView

_COLUMNS = (
    Column("HOST"),
    Column("CLUSTER", drop=2),
    Column("FIT", is_right=True),
    Column("LIMITED BY", is_flexible=True),
    Column("STRANDED", is_flexible=True, drop=1),
)
_SHOWN_GAINS = 3
_MOST_SHOWN = 8
_MIB = 1024 * 1024
_SIZE_COLUMNS = (
    Column("PROFILE"),
    Column("GPUS", is_right=True),
    Column("HOW", is_flexible=True),
    Column("DATA", is_right=True),
    Column("TENSOR", is_right=True),
    Column("STAGES", is_right=True),
    Column("STEP TIME", is_right=True),
    Column("NIC GBPS", is_right=True),
    Column("KW", is_right=True, drop=1),
)
_ROOM = (
    Column("SERVERS"),
    Column("KW", is_right=True),
    Column("BTU/H", is_right=True),
    Column("UNITS", is_right=True),
    Column("PSU", is_right=True),
    Column("SLOTS", is_right=True),
    Column("PORTS", is_right=True),
)
_STANDING = (
    Column("HOSTS", is_flexible=True),
    Column("MODEL", is_flexible=True),
    Column("GPUS PER HOST", is_flexible=True),
    Column("BOARDS KW", is_right=True),
    *_ROOM[1:],
)


def render_fit(view: FitView, width: int, *, with_all: bool = False) -> list[Text]:
    """Lay out the answer; hosts that have no such board are folded unless `with_all`."""
    return first_screen(lambda most: _rendered(view, width, most), len(view.fits.hosts), with_all=with_all)


def _rendered(view: FitView, width: int, most: Most) -> list[Text]:
    lines = both_ends(Text.assemble((view.request, "bold")), Text(view.server, style="dim"), width)
    far = [fit for fit in view.fits.hosts if not most.is_all and _is_far(fit)]
    near = [fit for fit in view.fits.hosts if fit not in far]
    if near:
        told, left = foremost(near, lambda fit: not fit.count, most)
        has_choice = len({name for fit in near for name, _ in fit.profiles}) > len(view.fits.profiles)
        columns = (*_COLUMNS[:3], Column("PROFILES"), *_COLUMNS[3:]) if has_choice else _COLUMNS
        cells = [_cells(fit, view, has_choice=has_choice) for fit in told]
        lines += [Text(""), *table(columns, cells, width)]
        counts = Counter(fit.count for fit in left)
        lines += others("hosts", (f"with room for {count}" for count in counts.elements()), width)
    lines.append(Text(""))
    if far:
        names = fold_hosts(fit.host.name for fit in far)
        lines += hanging(
            "NOT ON", f"{counted(len(far), 'host')} without a matching board: {names}", width, indent=0
        )
    for words, thought_of in view.added.items():
        lines += hanging("ADDED", f"{words}: {fold_hosts(thought_of)}, hypothetical", width, indent=0)
    if view.left_out:
        lines += hanging("LEFT OUT", _left_out(view.left_out), width, indent=0)
    lines += lost_lines(view.lost, width)
    if view.fits.total:
        lines += _gains(view, width)
    lines += _rooms(view, width)
    lines += hanging("TOTAL", _total(view), width, indent=0, style="bold")
    if view.next_step:
        lines += hanging("DO", view.next_step, width, indent=0, style="bold")
    elif view.now is not None and view.fits.total:
        begin = f"{_next_month(view.now):%Y-%m-01T00:00Z}"
        end = f"{_next_month(_next_month(view.now)):%Y-%m-01T00:00Z}"
        words = f"to reserve it for next month, add to the plan file: `from: {begin}` and `until: {end}`"
        lines += hanging("LATER", words, width, indent=0)
    return lines


def _next_month(moment: datetime) -> datetime:
    return moment.replace(day=1) + timedelta(days=31)


def _left_out(hosts: Iterable[Host]) -> str:
    """Say why nothing starts on hosts, those with the same reason together."""
    groups: dict[str, list[str]] = {}
    for host in hosts:
        is_there = host.connection is Connection.CONNECTED
        words = "in maintenance mode" if is_there else host.connection.words
        groups.setdefault(words, []).append(host.name)
    return "; ".join(f"{fold_hosts(names)}: {words}" for words, names in groups.items())


def _is_far(fit: HostFit) -> bool:
    """Whether the reason is other than room: such hosts are shown in one line."""
    return bool(fit.limits) and fit.limits[0].code is Code.NO_SUCH_BOARD


def _cells(fit: HostFit, view: FitView, *, has_choice: bool) -> list[Cell]:
    reasons = "; ".join(limit.text for limit in fit.limits)
    if fit.numa_tight:
        words = "on NUMA nodes that are in use or too small"
        reasons = "; ".join(filter(None, [f"{fit.numa_tight} {words}", reasons]))
    return [
        fit.host.name,
        view.clusters.get(fit.host.moid, ""),
        Text(str(fit.count), style="green" if fit.count else "red"),
        *([", ".join(f"{count} x {name}" for name, count in fit.profiles)] if has_choice else []),
        reasons,
        _stranded(view.gpus.get(fit.host.moid, ())),
    ]


def _stranded(gpus: Sequence[PooledGpu]) -> str:
    lost, bound = sum(gpu.lost_mib for gpu in gpus), sum(gpu.bound_mib for gpu in gpus)
    slices = sum(one.compute_slices for gpu in gpus for one in gpu.stranded)
    links = sum(any(one.kind == "nvlink" for one in gpu.stranded) for gpu in gpus)
    parts = [
        f"{size(lost)} lost" if lost else "",
        f"{size(bound)} locked" if bound else "",
        counted(slices, "compute slice") if slices else "",
        f"NVLink between {counted(links, 'GPU')}" if links else "",
    ]
    return ", ".join(part for part in parts if part)


def _gains(view: FitView, width: int) -> list[Text]:
    """Name the VMs whose leaving would bring the most, those of one host and one gain together."""
    vms: dict[tuple[int, str], list[str]] = {}
    for fit in view.fits.hosts:
        for gain in fit.gains:
            vms.setdefault((-gain.more, fit.host.name), []).append(gain.vm)
    lines: list[Text] = []
    for (more, host), names in sorted(vms.items())[:_SHOWN_GAINS]:
        whom = fold_names(names) if len(names) == 1 else f"one of {fold_names(names)}"
        words = f"{-more} more would fit on {host} without {whom}, which uses less than half a GPU"
        lines += hanging("HINT", words, width, indent=0)
    return lines


def _rooms(view: FitView, width: int) -> list[Text]:
    """Show the number that shares leave, and the time from which fewer fit because of other reservations."""
    rooms, now = view.fits.rooms, view.now
    lines: list[Text] = []
    for one in rooms.shares:
        lines += hanging("SHARE", f"{one.more} for {one.use.words}", width, indent=0)
    for state in rooms.spares:
        lines += hanging("SPARE", state.words, width, indent=0)
    for later in rooms.later:
        since = "" if later.moment.at == now else f" from {later.moment.at:%Y-%m-%d %H:%M} UTC"
        lines += hanging("RESERVED", f"{later.count}{since}: {later.text}", width, indent=0)
    return lines


def _total(view: FitView) -> str:
    rooms = view.fits.rooms
    parts = [
        _count(view),
        "" if view.as_it_is is None else f"{view.as_it_is} on existing hosts",
        "" if rooms.allowed is None else _allowed(view.fits),
        ENFORCES_NONE if rooms.shares or rooms.later else "",
    ]
    return "; ".join(part for part in parts if part)


def _allowed(fits: Fits) -> str:
    if fits.rooms.is_waiting:
        return f"the plan can reserve GPUs for {fits.allowed} of them"
    whose = "a plan without an end date" if fits.rooms.lasts and fits.rooms.later else "a plan"
    return f"{whose} may use {('all' if fits.allowed == fits.total else fits.allowed)} of them"


def _count(view: FitView) -> str:
    fits = view.fits
    hosts = sum(fit.count > 0 for fit in fits.hosts)
    if not fits.total:
        return "0 fit"
    words = f"{fits.total} more {'fits' if fits.total == 1 else 'fit'} on {counted(hosts, 'host')}"
    if len(fits.profiles) == 1 and not fits.memory_mib:
        return f"{words}; CPUs and memory are ignored, since a profile does not specify them"
    return words


def render_size(
    model: Model | None, workers: int, found: Sequence[Candidate], width: int, *, with_all: bool
) -> list[Text]:
    """Lay the candidates out, then what servers with such boards take of the room."""
    lines = [Text("Estimate only. Measure before you buy", style="bold")]
    if model is not None:
        lines += _model_lines(model, width)
    told = [one for one in found if with_all or one.boards_watts is not None] or list(found)
    shown = told if with_all else told[:_MOST_SHOWN]
    if shown:
        lines += [
            Text(""),
            *table(_SIZE_COLUMNS, _without_unknown([_size_cells(one) for one in shown]), width),
        ]
    rooms = list(dict.fromkeys(sheet for one in shown for sheet in one.rooms))
    published = [sheet for sheet in rooms if with_all or sheet.watts is not None] or rooms
    if published:
        rows = _without_unknown([_room_cells(sheet) for sheet in published])
        lines += [Text(""), *table(_ROOM, rows, width)]
    lines += [Text("")]
    unknown = [f"{one.gpus} × {one.profile}" for one in found if one not in told]
    unknown += [f"{sheet.servers} × {sheet.server}" for sheet in rooms if sheet not in published]
    if unknown:
        words = f"no published power figures: {listed(unknown, shown=6)}; -v shows their rows"
        lines += hanging("UNKNOWN", words, width, indent=0)
    if len(told) > len(shown):
        words = f"{len(told) - len(shown)} more candidates (use -v to list them)"
        lines += hanging("MORE", words, width, indent=0)
    words = _result(model, workers, found)
    lines += hanging("RESULT", words, width, indent=0, style="bold")
    if found:
        memory = size(found[0].memory_mib)
        words = f"rule of thumb: twice as much server memory as framebuffer; {memory} for the first candidate"
        lines += hanging("HINT", words, width, indent=0)
    else:
        words = "use more --workers (a multiple of 8), --sharding fsdp, a smaller --batch or --sequence, "
        words += "or a different --board"
        if model is None:
            words = "use a different --board or a smaller --framebuffer"
        lines += hanging("DO", words, width, indent=0)
    return lines


def render_room(
    found: Sequence[StandingHosts], clusters: Sequence[str], server: str, width: int
) -> list[Text]:
    """Lay out the use of existing hosts, model by model, and its unknown parts."""
    title = f"rack space and power for {', '.join(clusters) or 'all hosts'}"
    lines = both_ends(Text(title, style="bold"), Text(server, style="dim"), width)
    lines += [Text(""), *table(_STANDING, [_standing_cells(one) for one in found], width), Text("")]
    unknown = [name for one in found if one.room is None for name in one.hosts]
    if unknown:
        words = f"no data sheet for the models of {fold_hosts(unknown)}; only their boards are included"
        lines += hanging("UNKNOWN", words, width, indent=0)
    for one in found:
        lines += [line for words in _short(one) for line in hanging("HINT", words, width, indent=0)]
    boards = [one.boards_watts for one in found if one.boards_watts is not None]
    rooms = [one.room for one in found if one.room is not None and one.room.watts is not None]
    told = f"boards: up to {sum(boards) / 1000:.1f} kW" if boards else "the boards' power draw is unknown"
    if rooms:
        watts, heat = sum(one.watts or 0 for one in rooms), sum(one.btu_per_hour or 0 for one in rooms)
        servers = counted(sum(one.servers for one in rooms), "server")
        told += f"; {servers} with a data sheet: up to {watts / 1000:.1f} kW and {heat} BTU/h"
    return lines + hanging("TOTAL", told, width, indent=0, style="bold")


def _standing_cells(one: StandingHosts) -> list[str]:
    sheet = one.room
    known = ["?"] * 6 if sheet is None else _room_cells(sheet)[1:]
    boards = ", ".join(f"{count} × {name}" for name, count in one.boards.items()) or "none"
    drawn = "?" if one.boards_watts is None else f"{one.boards_watts / 1000:.1f}"
    return [fold_hosts(one.hosts), one.model, boards, drawn, *known]


def _short(one: StandingHosts) -> Iterator[str]:
    """Name hosts with less memory than the rule of thumb has, those with as much together."""
    by_memory: dict[int, list[str]] = {}
    for name, memory in one.short_of_memory.items():
        by_memory.setdefault(memory, []).append(name)
    for memory, names in by_memory.items():
        has = f"{fold_hosts(names)} {'has' if len(names) == 1 else 'have'} {size(memory)} of memory"
        yield (
            f"{has} for {size(one.framebuffer_mib or 0)} of framebuffer; as a rule of thumb, memory "
            "should be twice the framebuffer, and VMs with vGPUs reserve all of their memory"
        )


def _model_lines(model: Model, width: int) -> list[Text]:
    shape = (
        f"{model.parameters / 1000000000.0:g} billion parameters, modeled as {model.layers} layers of "
        f"width {model.hidden}"
    )
    states = f"{size(model.state_bytes // _MIB)} for weights, gradients and {model.optimizer} optimizer state"
    if model.sharding is not Sharding.NONE:
        states += f", sharded across the replicas ({model.sharding})"
    if model.lora:
        shape += f"; LoRA of rank {model.lora} trains {model.trained / 1000000:.3g} million"
    least, most = (size(part // _MIB) for part in (model.least_activation_bytes, model.most_activation_bytes))
    activations = f"{least} for activations with recomputation, {most} without"
    return [*hanging("MODEL", shape, width), *hanging("MEMORY", f"{states}; {activations}", width)]


def _without_unknown(rows: list[list[str]]) -> list[list[str]]:
    """Empty the columns of which no row knows anything, so that the table leaves them out."""
    known = [{cells[index] for cells in rows} != {"?"} for index in range(len(rows[0]))]
    return [[cell if is_known else "" for cell, is_known in zip(cells, known, strict=True)] for cells in rows]


def _size_cells(one: Candidate) -> list[str]:
    how = f"{one.way}, activations recomputed" if one.recomputes else str(one.way)
    return [
        one.profile,
        str(one.gpus),
        how,
        str(one.data),
        str(one.tensor),
        str(one.pipeline),
        "?" if one.step_seconds is None else _seconds(one.step_seconds),
        "?" if one.nic_gbps is None else f"{one.nic_gbps.least:.3g} to {one.nic_gbps.most:.3g}",
        "?" if one.boards_watts is None else f"{one.boards_watts / 1000:.1f}",
    ]


def _seconds(step: Bracket) -> str:
    return f"{duration(step.least)} to {duration(step.most)}"


def _room_cells(sheet: RoomSheet) -> list[str]:
    ports = "?"
    if sheet.switch_ports is not None:
        ports = f"{sheet.switch_ports} × {sheet.port_gbps} Gb/s"
    return [
        f"{sheet.servers} × {sheet.server}",
        "?" if sheet.watts is None else f"{sheet.watts / 1000:.1f}",
        _known(sheet.btu_per_hour),
        _known(sheet.rack_units),
        _known(sheet.power_supplies),
        f"{sheet.gpu_slots} of {_known(sheet.pcie_slots)}",
        ports,
    ]


def _known(number: int | None) -> str:
    return "?" if number is None else str(number)


def _result(model: Model | None, workers: int, found: Sequence[Candidate]) -> str:
    what = "the model" if model is not None else "that framebuffer"
    asked = counted(workers, "worker")
    if not found:
        return f"no board in the catalog can run {what} with {asked}"
    return f"{counted(len(found), 'candidate')} for {asked}, fewest GPUs first"
