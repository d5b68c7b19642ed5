"""Hosts out of service on a terminal: an upgrade's waves and rehearsal, and the fate of VMs in an absence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from rich.text import Text

from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration, listed
from vgpu_cfg.planning.host_settings.esxi import build_number
from vgpu_cfg.planning.upgrade.assess import AffectedVm, Assessment, Fate
from vgpu_cfg.planning.upgrade.waves import Played, Times, Wave, letters
from vgpu_cfg.planning.upkeep.absence import Absence
from vgpu_cfg.render.layout.lines import Cell, Column, abridged_runs, both_ends, fold, hanging, table
from vgpu_cfg.render.views.estate.absence import AbsenceRow, view_absence

_MOST = 6
"""So many rows of each table are shown without -v; the first screen has at most 50 lines."""
_LABEL_WIDTH = 8
_FATES = {Fate.MOVES: "VMOTION", Fate.OFF: "OFF", Fate.STAYS: "STUCK"}
_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOST"),
    Column("DEVICES", is_flexible=True, drop=1),
    Column("IN MAINTENANCE", is_flexible=True),
    Column("STUN", is_right=True),
    Column("AFTER A FAILURE", is_flexible=True),
)
_STYLES = {"": "", "warn": "yellow", "bad": "red"}


def render_upgrade(
    found: Assessment, waves: Sequence[Wave], times: Times, server: str, width: int, *, with_all: bool = False
) -> list[Text]:
    """Lay out an upgrade; with `with_all` every host, VM and letter is listed."""
    most = None if with_all else _MOST
    total = len(found.hosts) + found.has_it + len(found.unknown)
    count = (
        f"{len(found.hosts)} of {counted(total, 'host')} affected, {counted(len(found.vms), 'running VM')}"
    )
    title = Text(f"upgrade of {server} to {found.target.words}", style="bold")
    lines = both_ends(title, Text(count, style="dim"), width)
    if found.unknown:
        lines += _paragraph("UNREAD", f"installed driver on {_runs(found.unknown, most)}", width)
    if not found.hosts:
        return [*lines, Text(""), Text("Nothing to do: no host needs the upgrade.")]
    lines += [Text(""), *_hosts(found, width, most), *_vms(found, width, most), *_firsts(found, width)]
    lines += [*_in_the_way(found, width, most), *_waves(found, waves, times, width, most)]
    for name, letter in letters(found, waves).items() if with_all else ():
        lines += [Text(""), *fold(Text(f"TO {name}", style="bold"), width)]
        lines += [part for line in letter.splitlines() for part in fold(Text(line), width, hang=4)]
    return (
        lines
        if with_all
        else [*lines, Text("-v lists all VMs and the notices to their owners.", style="dim")]
    )


def _paragraph(label: str, text: str, width: int) -> list[Text]:
    return hanging(label, text, width, indent=0, label_width=_LABEL_WIDTH, style="bold")


def _runs(names: Iterable[str], most: int | None) -> str:
    return abridged_runs(fold_names(names), most)


def _hosts(found: Assessment, width: int, most: int | None) -> Iterator[Text]:
    """List the hosts by the software that they have now."""
    kinds: dict[str, list[str]] = {}
    for host in found.hosts:
        coming = f" -> {host.target}" if host.target else ""
        software = [f"driver {host.present or 'none'}{coming}"] if coming or found.target.fixed else []
        if found.target.esxi:
            is_old = build_number(host.build) < build_number(found.target.esxi)
            software.append(f"ESXi build {host.build}{f' -> {found.target.esxi}' if is_old else ''}")
        kinds.setdefault(", ".join(software), []).append(host.name)
    for number, (now, names) in enumerate(list(kinds.items())[:most]):
        text = f"{counted(len(names), 'host')} with {now}: {_runs(names, most)}"
        yield from _paragraph("" if number else "HOSTS", text, width)


def _vms(found: Assessment, width: int, most: int | None) -> Iterator[Text]:
    """List the running VMs by owner."""
    by_owner: dict[str, list[AffectedVm]] = {}
    for vm in found.vms:
        by_owner.setdefault(vm.owner, []).append(vm)
    if not by_owner:
        yield from _paragraph("VMS", "no VMs run on these hosts", width)
        return
    in_order = sorted(by_owner.items(), key=lambda one: (-len(one[1]), one[0]))
    columns = [Column("VMS OF", is_flexible=True), *(Column(name, is_right=True) for name in _FATES.values())]
    columns.append(Column("LONGEST PAUSE", is_right=True))
    rows = [_row(owner or "unknown owner", vms) for owner, vms in in_order[:most]]
    if most and len(in_order) > most:
        rest = [vm for _, vms in in_order[most:] for vm in vms]
        rows.append(_row(f"{counted(len(in_order) - most, 'more owner')}", rest))
    yield Text("")
    yield from table(columns, rows, width, indent=0)
    reasons = Counter((vm.fate, vm.why) for vm in found.vms if vm.fate is not Fate.MOVES)
    for (fate, why), count in reasons.most_common(most):
        names = [vm.name for vm in found.vms if (vm.fate, vm.why) == (fate, why)]
        text = f"{counted(count, 'VM')} ({why}): {_runs(names, 3 if most else None)}"
        yield from _paragraph(_FATES[fate], text, width)


def _row(owner: str, vms: Sequence[AffectedVm]) -> list[str]:
    fates = Counter(vm.fate for vm in vms)
    stun = max((vm.stun_ms or 0 for vm in vms), default=0)
    return [owner, *(str(fates[fate] or "") for fate in _FATES), f"{stun / 1000:.0f} s" if stun else ""]


def _firsts(found: Assessment, width: int) -> Iterator[Text]:
    if found.firsts:
        yield Text("")
    for number, first in enumerate(found.firsts):
        yield from _paragraph("" if number else "FIRST", first.text, width)
        if first.command:
            yield from fold(Text(f"{' ' * _LABEL_WIDTH} $ {first.command}"), width, hang=_LABEL_WIDTH + 3)


def _in_the_way(found: Assessment, width: int, most: int | None) -> Iterator[Text]:
    reasons: dict[str, list[str]] = {}
    for host in found.hosts:
        if host.blocked:
            reasons.setdefault(host.blocked, []).append(host.name)
    if reasons:
        yield Text("")
    for number, (why, blocked) in enumerate(list(reasons.items())[:most]):
        text = f"{counted(len(blocked), 'host')} left out ({why}): {_runs(blocked, 3 if most else None)}"
        yield from _paragraph("" if number else "BLOCKED", text, width)


def _waves(
    found: Assessment, waves: Sequence[Wave], times: Times, width: int, most: int | None
) -> Iterator[Text]:
    if not waves:
        return
    columns = [
        Column("WAVE"),
        Column("BEGINS", is_flexible=True),
        Column("HOSTS", is_right=True),
        Column("HOURS", is_right=True),
        Column("EXPECTED END", is_flexible=True),
        Column("VMOTION", is_right=True),
        Column("OFF", is_right=True),
        Column("STUCK", is_right=True),
    ]
    has_spares = any(wave.spares for wave in waves)
    if has_spares:
        columns.append(Column("SPARE"))
    # The last wave is always shown: it says when the work is complete.
    shown = waves if most is None or len(waves) <= most + 2 else [*waves[: most + 1], waves[-1]]
    rows = [
        [
            str(wave.number),
            f"{wave.opens:%a %Y-%m-%d %H:%M}",
            str(len(wave.hosts)),
            f"{wave.hours:.1f}",
            f"{wave.ends:%a %Y-%m-%d %H:%M}",
            *(str(len(wave.vms(fate)) or "") for fate in Fate),
            *([_spare(wave)] if has_spares else ()),
        ]
        for wave in shown
    ]
    yield Text("")
    yield from table(columns, rows, width, indent=0)
    lost = {one.words: wave.number for wave in reversed(waves) for one in wave.spares if one.count}
    for number, (words, since) in enumerate(sorted(lost.items(), key=itemgetter(1))[: 2 if most else None]):
        yield from _paragraph("" if number else "SPARE", f"from wave {since}: {words}", width)
    at_once = sorted(set(found.lanes.values()))
    count = listed(map(str, at_once), separator=" or ")
    text = f"up to {count} per cluster down at once; clusters are upgraded in parallel"
    canaries = "; wave 1 is one host in each cluster; rerun this command after wave 1 to use its actual times"
    yield from _paragraph("PACE", f"{text}{canaries * waves[0].is_canary}", width)
    yield from _paragraph("TIMES", times.source, width)
    hours = sum(wave.hours for wave in waves)
    windows = counted(len({wave.closes for wave in waves}), "window")
    text = f"{windows}, {hours:.1f} hours; complete {waves[-1].ends:%a %Y-%m-%d %H:%M %Z}"
    yield from _paragraph("TOTAL", text, width)
    text = "if a host fails, no other host in its cluster is taken down in this wave; rerun apply to continue"
    yield from _paragraph("BUDGET", text, width)


def _spare(wave: Wave) -> str:
    """Whether the clusters of a wave keep their spare, else how many VMs have no other host."""
    lacking = sum(one.count for one in wave.spares)
    return f"insufficient for {counted(lacking, 'VM')}" if lacking else "kept" if wave.spares else ""


def render_rehearsal(played: Sequence[Played], width: int) -> list[Text]:
    """Compare each wave with its forecast; the total omits defaults, which no host has confirmed."""
    columns = [
        Column("WAVE"),
        Column("BEGINS", is_flexible=True),
        *(Column(name, is_right=True) for name in ("HOSTS", "UPGRADED", "EXPECTED", "TOOK", "DEVIATION")),
        Column("FORECAST BY", is_flexible=True),
    ]
    rows = [
        [
            str(one.wave.number),
            f"{one.wave.opens:%a %Y-%m-%d %H:%M}",
            str(len(one.wave.hosts)),
            str(one.done),
            duration(3600 * one.wave.hours),
            duration(one.seconds),
            f"{one.deviation:+.0%}",
            counted(one.measured, "upgraded host") if one.measured else "defaults",
        ]
        for one in played
    ]
    lines = [Text("rehearsed on a copy of the lab", style="bold"), Text("")]
    lines += table(columns, rows, width, indent=0)
    known = [one for one in played if one.measured]
    expected, took = sum(3600 * one.wave.hours for one in known), sum(one.seconds for one in known)
    if expected:
        text = f"expected {duration(expected)}, took {duration(took)}: {took / expected - 1:+.0%}"
        lines += _paragraph("TOTAL", f"{text}, excluding forecasts based on defaults", width)
    note = "in the rehearsal, DRS is fully automated, and owners power off their VMs before each wave"
    return [*lines, *_paragraph("NOTE", note, width)]


def render_absence(
    found: Absence, server: str, width: int, completed: Callable[[str], str] = str
) -> list[Text]:
    """Lay out a row for each VM with GPUs or NICs of the host, and the others in one line.

    `completed` adds the options of this command to the one that comes next.
    """
    view = view_absence(found)
    lines = both_ends(Text(view.title, style="bold"), Text(server, style="dim"), width)
    if view.rows:
        lines += [Text(""), *table(_COLUMNS, [_absence_cells(one) for one in view.rows], width)]
    lines.append(Text(""))
    for label, words in view.lines:
        lines += hanging(label, words, width, indent=0)
    return lines + hanging("DO", completed(view.next_step), width, indent=0, style="bold")


def _absence_cells(one: AbsenceRow) -> list[Cell]:
    way = Text(one.way, style=_STYLES[one.way_tone])
    after = Text(one.after, style=_STYLES[one.after_tone])
    return [one.vm, one.host, one.holds, way, one.stun, after]
