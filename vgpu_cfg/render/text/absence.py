"""How it reads what would become of VMs if something were away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import assert_never

from rich.text import Text

from vgpu_cfg.planning.expand.ranges import fold_names
from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Death, How
from vgpu_cfg.planning.upkeep.away import AwayCluster, AwayGpu, AwayHost, AwayNic
from vgpu_cfg.planning.upkeep.loss import Loss
from vgpu_cfg.planning.upkeep.uplinks import LostUplink
from vgpu_cfg.render.layout.lines import (
    Cell,
    Column,
    both_ends,
    counted,
    duration,
    hanging,
    size,
    table,
    without_domain,
)
from vgpu_cfg.render.layout.profiles import ladder
from vgpu_cfg.render.views.topology import short

_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOLDS", is_flexible=True, drop=1),
    Column("IN MAINTENANCE", is_flexible=True),
    Column("STUN", is_right=True),
    Column("IF IT DIED NOW", is_flexible=True),
)
_WAYS = {
    How.VMOTION: "by vMotion",
    How.COLD: "off while it moves",
    How.RESTART: "off and on again on its host",
    How.OFF: "off",
    How.STAYS: "stays",
}
_MANY = _WAYS | {How.COLD: "off while they move", How.RESTART: "off and on again", How.STAYS: "stay"}


def render_absence(found: Absence, server: str, width: int) -> list[Text]:
    """Lay out a row for each VM with GPUs or NICs of the host, and the others in one line."""
    is_part = found.cluster and not isinstance(found.away, AwayCluster)
    title = f"without {found.away.title}" + (f", of {found.cluster}" if is_part else "")
    lines = both_ends(Text(title, style="bold"), Text(server, style="dim"), width)
    if found.with_devices:
        lines += [Text(""), *table(*_table(found), width)]
    lines.append(Text(""))
    for why, names in _reasons(found).items():
        lines += hanging("WHY", f"{fold_names(names)}: {why}", width, indent=0)
    if found.others:
        lines += hanging("OTHERS", _others(found.others), width, indent=0)
    lines += hanging("TOTAL", total_words(found), width, indent=0)
    lines += hanging("LOST", _lost(found), width, indent=0)
    for words in nvlink_words(found.loss):
        lines += hanging("NVLINK", words, width, indent=0)
    for uplink in found.uplinks:
        lines += hanging("UPLINK", uplink_words(uplink), width, indent=0)
    lines += hanging("HA", _restart_words(found), width, indent=0)
    for note in found.notes:
        lines += hanging("NOTE", note, width, indent=0)
    return lines + hanging("DO", _next(found), width, indent=0, style="bold")


def _table(found: Absence) -> tuple[Sequence[Column], list[list[Cell]]]:
    """Return columns and rows; where several hosts go, each row names its own."""
    rows = [_cells(one) for one in found.with_devices]
    if len(found.away.hosts) == 1:
        return _COLUMNS, rows
    short_names = without_domain(host.name for host in found.away.hosts)
    hosts: list[Cell] = [short_names[one.host] for one in found.with_devices]
    columns = (_COLUMNS[0], Column("HOST"), *_COLUMNS[1:])
    return columns, [[row[0], host, *row[1:]] for row, host in zip(rows, hosts, strict=True)]


def _cells(one: Absent) -> list[Cell]:
    return [
        one.vm,
        _held(one),
        _way(one),
        "" if one.drained.how is not How.VMOTION else "unknown" if one.stun is None else duration(one.stun),
        _after(one.died),
    ]


def _held(one: Absent) -> str:
    """Say what a VM holds of its host: vGPUs and whole GPUs, then functions of NICs."""
    parts = [ladder(Counter(one.holds))] if one.holds else []
    parts += [counted(one.functions, "virtual function")] if one.functions else []
    parts += [f"{one.whole_nics}×whole NIC"] if one.whole_nics else []
    return ", ".join(parts)


def _way(one: Absent) -> Cell:
    going = one.drained
    match going.how:
        case How.VMOTION:
            return f"vMotion to {going.to}"
        case How.COLD:
            return Text(f"off while it moves to {going.to}", style="yellow")
        case How.RESTART:
            return Text(f"off and on again on {going.to}", style="yellow")
        case How.OFF | How.STAYS:
            return Text(_WAYS[going.how], style="red")
    assert_never(going.how)


def _after(died: Death) -> Cell:
    if died.dies is False:
        return Text(f"runs on without {', '.join(died.loses)}", style="red")
    return f"starts on {died.to}" if died.to else Text("starts nowhere", style="red")


def _reasons(found: Absence) -> dict[str, list[str]]:
    """Return the VMs for which something stands in the way, by what that is."""
    reasons: dict[str, list[str]] = {}
    for one in found.vms:
        if why := one.drained.why or one.died.why:
            reasons.setdefault(why, []).append(one.vm)
    return reasons


def _others(others: Sequence[Absent]) -> str:
    ways = Counter("move by vMotion" if one.drained.how is How.VMOTION else "do not" for one in others)
    nowhere = [one.vm for one in others if not one.died.to]
    said = ", ".join(f"{count} {way}" for way, count in sorted(ways.items(), reverse=True))
    words = f"{counted(len(others), 'VM')} without GPUs: {said}"
    return f"{words}; after a death {fold_names(nowhere)} would start nowhere" if nowhere else words


def total_words(found: Absence) -> str:
    """Say how many VMs go how, for how long at most, and what starts again after a death."""
    sums = found.totals
    if not sums.vms:
        return "no VM loses anything" if found.away.host_stays else "no VM runs there"
    ways = [f"{count} {(_WAYS if count == 1 else _MANY)[how]}" for how, count in sums.ways.items() if count]
    if sums.longest_stun_ms is not None:
        ways[0] += f" (stopped for {duration(sums.longest_stun_ms / 1000)} at most)"
    nowhere = sums.vms - sums.starts
    after = [f"{sums.starts} could start again"] if sums.starts else []
    after += [f"{nowhere} nowhere" if sums.starts else "none could start again"] if nowhere else []
    return f"{counted(sums.vms, 'VM')}, in maintenance {', '.join(ways)}; after a death {', '.join(after)}"


def _lost(found: Absence) -> str:
    loss = found.loss
    gpus = ", ".join(f"{count} × {name}" for name, count in loss.gpus.items()) or "no GPU"
    memory = f" ({size(loss.memory_mib)}, {size(loss.free_mib)} of it free now)" if loss.memory_mib else ""
    dying = found.totals.dies
    dies = f"; by a death what {counted(dying, 'VM')} had in memory" if dying else ""
    return f"{gpus}{memory}{dies}"


def nvlink_words(loss: Loss) -> Iterator[str]:
    """Say which GPUs NVLink joins with what is lost, and how many sets of peers that leaves."""
    for host, domain in loss.links:
        names = ", ".join(short(pci_id) for pci_id in sorted(domain.gpus))
        yield f"{domain.kind} of {names} on {host}{'' if domain.is_certain else ' (a guess)'}"
    sets = [f"{one.left} of {one.now} of {one.size} GPUs" for one in loss.peer_sets if one.left < one.now]
    if sets:
        yield f"sets of peers that are left: {', '.join(sets)}"


def uplink_words(uplink: LostUplink) -> str:
    """Say what a switch has left without a NIC, and who is cut off."""
    if not uplink.is_last:
        return f"{uplink.switch} keeps {', '.join(uplink.up)}"
    why = f"{', '.join(uplink.others)} have no link" if uplink.others else "it has no other NIC"
    users = [*uplink.names, *uplink.vmknics] if uplink.is_told else []
    cut = f"; cut off: {', '.join(users)}" if users else ""
    vms = f", and with them {fold_names(vm.name for vm in uplink.cut_off)}" if uplink.cut_off else ""
    return f"{uplink.switch} loses its last one ({why}){cut}{vms}"


def _restart_words(found: Absence) -> str:
    match found.away:
        case AwayGpu():
            return "starts VMs again whose host fails; for a GPU see NOTE"
        case AwayNic():
            return "starts VMs again whose host fails; that it does for a NIC is not proven"
        case AwayCluster():
            return "starts VMs again only on hosts of their own cluster, and none of it is left"
        case AwayHost():
            pass
        case _:
            assert_never(found.away)
    if found.has_ha:
        return f"on in {found.cluster}: it starts VMs again where it finds room, as there is where one starts"
    return "off: somebody starts them by hand, when it is certain that the host is off"


def _next(found: Absence) -> str:
    match found.away:
        case AwayHost():
            return f"vgpu-cfg drain {found.away.word} --others --dry-run"
        case AwayCluster():
            return f"one host at a time: vgpu-cfg fit --without host:{found.away.hosts[0].name}"
        case AwayGpu():
            return f"vgpu-cfg cordon {found.away.word} --reason WHY"
        case AwayNic():
            return f"vgpu-cfg fit --without host:{found.away.host.name}"
    assert_never(found.away)
