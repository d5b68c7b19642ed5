"""How it reads what would become of the VMs of a host that is thought away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Going
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, counted, duration, hanging, table
from vgpu_cfg.render.layout.profiles import ladder

_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOLDS", is_flexible=True, drop=1),
    Column("IN MAINTENANCE", is_flexible=True),
    Column("STUN", is_right=True),
    Column("IF IT DIED NOW", is_flexible=True),
)


def render_absence(found: Absence, server: str, width: int) -> list[Text]:
    """Lay out a row for each VM with GPUs or NICs of the host, and the others in one line."""
    title = f"without {found.host.name}" + (f", of {found.cluster}" if found.cluster else "")
    lines = both_ends(Text(title, style="bold"), Text(server, style="dim"), width)
    if found.with_devices:
        lines += [Text(""), *table(_COLUMNS, [_cells(one) for one in found.with_devices], width)]
    lines.append(Text(""))
    for why, names in _reasons(found).items():
        lines += hanging("WHY", f"{fold_names(names)}: {why}", width, indent=0)
    if found.others:
        lines += hanging("OTHERS", _others(found.others), width, indent=0)
    lines += hanging("LOST", _lost(found), width, indent=0)
    lines += hanging("HA", _restart_words(found), width, indent=0)
    words = f"vgpu-cfg drain host:{found.host.name} --others --dry-run"
    return lines + hanging("DO", words, width, indent=0, style="bold")


def _cells(one: Absent) -> list[Cell]:
    return [
        one.vm,
        ladder(Counter(one.holds)),
        _way(one.drained),
        "" if not one.drained.vmotion else "unknown" if one.stun is None else duration(one.stun),
        f"starts on {one.died.to}" if one.died.to else Text("starts nowhere", style="red"),
    ]


def _way(going: Going) -> Cell:
    if going.vmotion:
        return f"vMotion to {going.to}"
    if going.to:
        return Text(f"off while it moves to {going.to}", style="yellow")
    return Text("off" if going.is_off else "stays", style="red")


def _reasons(found: Absence) -> dict[str, list[str]]:
    """Return the VMs for which something stands in the way, by what that is."""
    reasons: dict[str, list[str]] = {}
    for one in (*found.with_devices, *found.others):
        if why := one.drained.why or one.died.why:
            reasons.setdefault(why, []).append(one.vm)
    return reasons


def _others(others: Sequence[Absent]) -> str:
    ways = Counter("move by vMotion" if one.drained.vmotion else "do not" for one in others)
    nowhere = [one.vm for one in others if not one.died.to]
    said = ", ".join(f"{count} {way}" for way, count in sorted(ways.items(), reverse=True))
    words = f"{counted(len(others), 'VM')} without GPUs: {said}"
    return f"{words}; after a death {fold_names(nowhere)} would start nowhere" if nowhere else words


def _lost(found: Absence) -> str:
    boards = Counter(gpu.name for gpu in found.host.gpus)
    gpus = ", ".join(f"{count} × {name}" for name, count in boards.items()) or "no GPU"
    running = len(found.with_devices) + len(found.others)
    dies = f"; by a death what {counted(running, 'VM')} had in memory" if running else ""
    return f"{gpus}{dies}"


def _restart_words(found: Absence) -> str:
    if found.restarts:
        return f"on in {found.cluster}: it starts VMs again where it finds room, as there is where one starts"
    return "off: somebody starts them by hand, when it is certain that the host is off"
