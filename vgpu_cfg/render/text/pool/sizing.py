"""An estimate of a model's requirements on a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from vgpu_cfg.model.wording import counted, duration, listed
from vgpu_cfg.planning.sizing.candidates import Bracket, Candidate
from vgpu_cfg.planning.sizing.standing import Model, RoomSheet, Sharding, StandingHosts
from vgpu_cfg.render.layout.lines import Column, both_ends, fold_hosts, hanging, size, table

_MOST_SHOWN = 8
_MIB = 1024 * 1024
_COLUMNS = (
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
        lines += [Text(""), *table(_COLUMNS, _without_unknown([_cells(one) for one in shown]), width)]
    rooms = list(dict.fromkeys(sheet for one in shown for sheet in one.rooms))
    published = [sheet for sheet in rooms if with_all or sheet.watts is not None] or rooms
    if published:
        rows = _without_unknown([_room_cells(sheet) for sheet in published])
        lines += [Text(""), *table(_ROOM, rows, width)]
    lines += [Text("")]
    unknown = [f"{one.gpus} × {one.profile}" for one in found if one not in told]
    unknown += [f"{sheet.servers} × {sheet.server}" for sheet in rooms if sheet not in published]
    if unknown:
        words = f"no published power: {listed(unknown, shown=6)}; -v shows their rows"
        lines += hanging("UNKNOWN", words, width, indent=0)
    if len(told) > len(shown):
        lines += hanging("MORE", f"{len(told) - len(shown)} more candidates: -v shows them", width, indent=0)
    words = _result(model, workers, found)
    lines += hanging("RESULT", words, width, indent=0, style="bold")
    if found:
        memory = size(found[0].memory_mib)
        words = f"rule of thumb: twice as much server memory as framebuffer; {memory} for the first candidate"
        lines += hanging("HINT", words, width, indent=0)
    else:
        words = "use more --workers (a multiple of 8), --sharding fsdp, a smaller --batch or --sequence, "
        words += "or another --board"
        if model is None:
            words = "use another --board or a smaller --framebuffer"
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
    told = f"boards: at most {sum(boards) / 1000:.1f} kW" if boards else "the boards' power draw is unknown"
    if rooms:
        watts, heat = sum(one.watts or 0 for one in rooms), sum(one.btu_per_hour or 0 for one in rooms)
        servers = counted(sum(one.servers for one in rooms), "server")
        told += f"; {servers} with a data sheet: at most {watts / 1000:.1f} kW and {heat} BTU/h"
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
            f"{has} for {size(one.framebuffer_mib or 0)} of framebuffer; as a rule of thumb, memory is "
            "twice the framebuffer, and all memory of VMs with vGPUs is reserved"
        )


def _model_lines(model: Model, width: int) -> list[Text]:
    shape = (
        f"{model.parameters / 1000000000.0:g} billion parameters, modeled as {model.layers} layers of "
        f"{model.hidden}"
    )
    states = f"{size(model.state_bytes // _MIB)} for weights, gradients and {model.optimizer} optimizer state"
    if model.sharding is not Sharding.NONE:
        states += f", shared among replicas as in {model.sharding}"
    if model.lora:
        shape += f"; LoRA of rank {model.lora} trains {model.trained / 1000000:.3g} million"
    least, most = (size(part // _MIB) for part in (model.least_activation_bytes, model.most_activation_bytes))
    activations = f"{least} for activations with recomputation, {most} without"
    return [*hanging("MODEL", shape, width), *hanging("MEMORY", f"{states}; {activations}", width)]


def _without_unknown(rows: list[list[str]]) -> list[list[str]]:
    """Empty the columns of which no row knows anything, so that the table leaves them out."""
    known = [{cells[index] for cells in rows} != {"?"} for index in range(len(rows[0]))]
    return [[cell if is_known else "" for cell, is_known in zip(cells, known, strict=True)] for cells in rows]


def _cells(one: Candidate) -> list[str]:
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
