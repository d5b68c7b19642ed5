"""The answer to "how many more fit" on a terminal: host by host, with the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.text import Text

from vgpu_cfg.model.observed.inventory import Connection, Host
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.pool.fit import HostFit
from vgpu_cfg.planning.pool.gpus import PooledGpu
from vgpu_cfg.planning.pool.quotas import ENFORCES_NONE
from vgpu_cfg.planning.pool.shapes import Fits
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, fold_hosts, hanging, size, table
from vgpu_cfg.render.layout.most import Most, first_screen, foremost, others
from vgpu_cfg.render.text.plan.whole import lost_lines
from vgpu_cfg.render.views.estate.fit import FitView

_COLUMNS = (
    Column("HOST"),
    Column("CLUSTER", drop=2),
    Column("FIT", is_right=True),
    Column("LIMITED BY", is_flexible=True),
    Column("STRANDED", is_flexible=True, drop=1),
)
_SHOWN_GAINS = 3


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
    return lines


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
        f"NVLink of {counted(links, 'GPU')}" if links else "",
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
