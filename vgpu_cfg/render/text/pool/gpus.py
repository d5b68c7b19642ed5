"""The pool on a terminal: a line per board and mode, GPUs host by host, shares, VMs that may not need GPUs.

The table of shares has the GPUs of each holder, and the rest of the share. VMs that have GPU devices and may
not need them are those that are off, and those that seem idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from rich.text import Text

from vgpu_cfg.model.observed.inventory import VCenter
from vgpu_cfg.model.wording import counted, duration, listed
from vgpu_cfg.planning.pool.gpus import PooledGpu, PoolMode
from vgpu_cfg.planning.pool.quotas import ENFORCES_NONE, ShareUse
from vgpu_cfg.planning.pool.spare import ClusterSpare
from vgpu_cfg.planning.pool.summary import GpuPool, IdleVm, Managed, PoolRow, reclaim_steps
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
from vgpu_cfg.render.layout.most import USUAL, Most, first_screen, foremost, foremost_groups, others
from vgpu_cfg.render.layout.profiles import label_of, ladder
from vgpu_cfg.render.text.estate.inventory import render_cordons
from vgpu_cfg.render.text.pool.use import over, percent, render_use
from vgpu_cfg.render.views.estate.inventory import CordonRow, UseTable

_POOL_COLUMNS = (
    Column("BOARD", is_flexible=True),
    Column("MODE"),
    Column("HOSTS", is_right=True, drop=1),
    Column("GPUS", is_right=True),
    Column("IDLE", is_right=True),
    Column("USED", is_flexible=True),
    Column("FREE, ONE OF", is_flexible=True),
    Column("LOST", is_right=True),
    Column("LOCKED", is_right=True),
)
_GPU_COLUMNS = (
    Column("PCI"),
    Column("BOARD", is_flexible=True, drop=1),
    Column("MODE"),
    Column("RUNS", is_flexible=True),
    Column("FREE, ONE OF", is_flexible=True),
    Column("STRANDED", is_flexible=True),
)

_COLUMNS = (
    Column("WHO", is_flexible=True),
    Column("BOARD", is_flexible=True),
    Column("SHARE", is_right=True),
    Column("USED", is_right=True),
    Column("LEFT", is_right=True),
    Column("VMS", is_flexible=True, drop=1),
)

_OFF_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("HOST", is_flexible=True),
    Column("STATE"),
    Column("WOULD NEED", is_flexible=True),
    Column("PLAN", is_flexible=True, drop=1),
)
_IDLE_COLUMNS = (
    Column("VM", is_flexible=True),
    Column("OWNER", is_flexible=True),
    Column("FOLDER", is_flexible=True),
    Column("HOST", is_flexible=True),
    Column("DEVICES", is_flexible=True),
    Column("GPU", is_right=True),
    Column("CPU", is_right=True),
    Column("UPTIME", is_right=True),
    Column("PLAN", is_flexible=True, drop=1),
)
_DAY = 86_400


@dataclass(frozen=True, slots=True)
class _Alike:
    """GPUs of one host that differ in nothing but their address."""

    gpus: tuple[PooledGpu, ...]

    @property
    def pci(self) -> str:
        first, count = self.gpus[0].pci_id, len(self.gpus)
        return first if count == 1 else f"{first} +{count - 1}"


def render_pool(
    pool: GpuPool,
    vcenter: VCenter,
    width: int,
    *,
    use: UseTable | None = None,
    cordons: Sequence[CordonRow] = (),
    shares: tuple[Sequence[ShareUse], Sequence[ClusterSpare]] = ((), ()),
    with_all: bool = False,
) -> list[Text]:
    """Lay out the pool; without `with_all` idle hosts are named in one line and like GPUs folded."""
    hosts = len({gpu.host_moid for gpu in pool.gpus})

    def rendered(most: Most) -> list[Text]:
        left = Text.assemble(
            (vcenter.address, "bold"), f"  vCenter {vcenter.version}, API {vcenter.api_version}"
        )
        right = Text(f"{counted(hosts, 'host')} with {counted(len(pool.gpus), 'GPU')}")
        lines = both_ends(left, right, width)
        if not pool.gpus:
            return [*lines, Text(""), Text("vSphere reports no GPUs on any host.")]
        lines += [Text(""), Text("POOL", style="bold"), *render_pool_rows(pool.rows, width)]
        lines += _by_host(pool.gpus, width, most)
        if use is not None:
            lines += render_use(pool, use, width, most=most)
        lines += [*render_shares(shares[0], width, most), *_spares(shares[1], width)]
        lines += [*_managed(pool.managed, width), *render_cordons(cordons, width, most)]
        return [*lines, *render_off(pool, width, most), *render_idle(pool, width, most)]

    return first_screen(rendered, hosts, with_all=with_all)


def _spares(found: Sequence[ClusterSpare], width: int) -> list[Text]:
    lines = [line for one in found for line in hanging("SPARE", one.words, width, indent=0)]
    return [Text(""), *lines] if lines else []


def _managed(found: Sequence[Managed], width: int) -> list[Text]:
    """Say which other products hold GPUs, in a line each."""
    lines: list[Text] = []
    for one in found:
        devices = counted(one.devices, "GPU device")
        held = f"{devices} reserved on {listed(one.hosts)}"
        if one.vms:
            held = f"{counted(len(one.vms), 'VM')} with {devices}"
        lines += hanging("" if lines else "OTHERS", f"{one.manager}: {held}", width, indent=0)
    return [Text(""), *lines] if lines else []


def render_pool_rows(rows: Sequence[PoolRow], width: int) -> list[Text]:
    """Lay out a pool's rows by board and mode, and what their columns mean."""
    return [*table(_POOL_COLUMNS, [_pool_cells(row) for row in rows], width), *_notes(rows, width)]


def _pool_cells(row: PoolRow) -> list[Cell]:
    used = ladder(row.used)
    if row.whole_held:
        used = ", ".join(filter(None, [counted(row.whole_held, "whole GPU"), used]))
    free = ladder(row.room) or ("none" if row.idle == 0 else "")
    if row.mode is PoolMode.PASSTHROUGH:
        free = counted(row.idle, "whole GPU") if row.idle else "none"
    if row.not_ready == row.gpus:
        free = "not ready"
    return [
        row.board,
        str(row.mode),
        str(row.hosts),
        str(row.gpus),
        str(row.idle),
        used,
        Text(free, style="dim" if free in ("none", "not ready") else "green"),
        Text(size(row.lost_mib) if row.lost_mib else "", style="red"),
        Text(size(row.bound_mib) if row.bound_mib else "", style="yellow"),
    ]


def _notes(rows: Sequence[PoolRow], width: int) -> list[Text]:
    """Explain the columns that hold values, and the stranded resources other than memory."""
    notes = []
    if any(row.lost_mib for row in rows):
        notes.append("LOST is free memory that no profile can currently use.")
    if any(row.bound_mib for row in rows):
        notes.append("LOCKED is free memory that only vGPUs of the size running on that GPU can use.")
    for row in rows:
        if row.free_4g is not None:
            starts = f"{counted(row.free_4g, '4g instance')} can be created"
            rest = row.lost_compute_slices
            more = f", {counted(rest, 'compute slice')} left without memory" if rest else ""
            notes.append(f"{row.board} in MIG mode: {starts}{more}.")
        if row.nvlink_lost:
            words = counted(row.nvlink_lost, "idle GPU has an NVLink peer", "idle GPUs have an NVLink peer")
            notes.append(f"{row.board}: {words} that is used individually.")
        if row.not_ready:
            noun = counted(row.not_ready, "GPU is", "GPUs are")
            notes.append(f"{row.board}, {row.mode}: {noun} not ready.")
    return [line for note in notes for line in fold(Text(f"  {note}", style="dim"), width, hang=2)]


def _by_host(gpus: Sequence[PooledGpu], width: int, most: Most) -> list[Text]:
    with_all = most.is_all
    hosts = [(host, tuple(group)) for host, group in groupby(gpus, key=lambda gpu: gpu.host)]
    shown = [pair for pair in hosts if with_all or not all(_is_plainly_idle(gpu) for gpu in pair[1])]
    idle = [pair for pair in hosts if pair not in shown]
    lines: list[Text] = []
    if shown:
        told, left = foremost_groups(shown, lambda gpu: not (gpu.stranded or gpu.obstacle), most)
        rows = [(host, alike) for host, group in told for alike in _alike(group, with_all=with_all)]
        cells = [_gpu_cells(alike) for _, alike in rows]
        heading, *body = table_rows(_GPU_COLUMNS, cells, width, indent=4)
        lines += [Text(""), Text("GPUS", style="bold"), *heading]
        before = ""
        for (host, alike), entry in zip(rows, body, strict=True):
            if host != before:
                cluster = alike.gpus[0].cluster
                lines.append(Text.assemble("  ", (host, "bold"), (f"   {cluster}" if cluster else "", "dim")))
                before = host
            lines += entry
        hosts_left = counted(len(left), "host")
        lines += others(f"GPUs of {hosts_left}", (_state(gpu) for _, group in left for gpu in group), width)
    if idle:
        count = sum(len(group) for _, group in idle)
        names = fold_hosts(host for host, _ in idle)
        more = (
            f"{len(idle)} more {'host' if len(idle) == 1 else 'hosts'}"
            if shown
            else counted(len(idle), "host")
        )
        text = f"{more} without VMs, {counted(count, 'idle GPU')}: {names}"
        lines += [Text(""), *hanging("EMPTY", text, width, indent=0, style="bold")]
    return lines


def _state(gpu: PooledGpu) -> str:
    return "not ready" if gpu.obstacle else "idle" if gpu.is_idle else "used"


def _is_plainly_idle(gpu: PooledGpu) -> bool:
    return gpu.is_idle and not gpu.stranded


def _alike(gpus: Iterable[PooledGpu], *, with_all: bool) -> Iterator[_Alike]:
    """Gather consecutive GPUs without differences."""

    def key(gpu: PooledGpu) -> tuple[object, ...]:
        if with_all or gpu.runs:
            return (gpu.pci_id,)
        stranded = tuple(one.text for one in gpu.stranded)
        return (gpu.board, gpu.mode, tuple(gpu.room.items()), stranded, gpu.obstacle, gpu.label)

    for _, group in groupby(gpus, key=key):
        yield _Alike(tuple(group))


def _gpu_cells(alike: _Alike) -> list[Cell]:
    gpu = alike.gpus[0]
    room = gpu.room
    if gpu.runs and gpu.mode is PoolMode.SAME_SIZE:
        room = {name: count for name, count in room.items() if name in gpu.used}
    free = ladder(room) or "none"
    if gpu.is_idle and gpu.mode is not PoolMode.MIG:
        free = "entire GPU"
    return [
        alike.pci,
        gpu.board,
        f"{gpu.mode} ({gpu.label})" if gpu.label else str(gpu.mode),
        _runs(gpu),
        Text(gpu.obstacle or free, style=_style(gpu, free)),
        _stranded(gpu),
    ]


def _style(gpu: PooledGpu, free: str) -> str:
    if gpu.obstacle:
        return "yellow"
    return "dim" if free == "none" else "green"


def _runs(gpu: PooledGpu) -> str:
    """Write who runs there, VMs of one profile together: "2×10c: a, b"."""
    by_profile: dict[str, list[str]] = {}
    for run in gpu.runs:
        by_profile.setdefault(run.profile, []).append(run.vm)
    parts = []
    for profile, vms in by_profile.items():
        names = ", ".join(vms[:2]) + (f" and {len(vms) - 2} more" if len(vms) > 2 else "")
        count = f"{len(vms)}×" if len(vms) > 1 else ""
        parts.append(f"{count}{label_of(profile)}: {names}" if profile else f"{names} (whole)")
    return "; ".join(parts)


def _stranded(gpu: PooledGpu) -> Text:
    parts: list[tuple[str, str] | str] = []
    for one in gpu.stranded:
        if parts:
            parts.append("; ")
        parts.append((one.text, "yellow" if one.is_bound else "red"))
    return Text.assemble(*parts)


def render_shares(uses: Sequence[ShareUse], width: int, most: Most = USUAL) -> list[Text]:
    """Lay out the shares; nothing where no file of shares holds."""
    if not uses:
        return []
    cells: list[list[Cell]] = [
        [
            use.share.holder,
            use.share.called,
            use.worded(use.limit),
            use.worded(use.held),
            Text(use.worded(max(0, use.limit - use.held)), style="red" if use.held > use.limit else ""),
            abridged(use.vms, most.runs),
        ]
        for use in uses
    ]
    note = f"  A VM uses its GPUs while it is powered on. Quotas apply to plans; {ENFORCES_NONE}."
    lines = [Text(""), Text("SHARES", style="bold"), *table(_COLUMNS, cells, width)]
    return [*lines, *fold(Text(note, "dim"), width, hang=2)]


def render_off(pool: GpuPool, width: int, most: Most) -> list[Text]:
    """List the VMs that have GPU devices and do not run; nothing where there is none."""
    if not pool.off:
        return []
    told, left = foremost(pool.off, most=most)
    rows: list[list[Cell]] = [
        [
            holder.vm,
            holder.host,
            "suspended" if holder.state == "suspended" else "off",
            _devices(holder.devices),
            holder.plan,
        ]
        for holder in told
    ]
    lines = [Text(""), Text("WITH GPU DEVICES, NOT RUNNING", style="bold")]
    lines += table(_OFF_COLUMNS, rows, width)
    lines += others("VMs", ("" for _ in left), width)
    return [*lines, *_note("vCenter reserves no GPUs for these VMs; their GPUs count as free above.", width)]


def render_idle(pool: GpuPool, width: int, most: Most) -> list[Text]:
    """List the VMs that run with GPU devices and seem idle, and what would take them back; else nothing."""
    lines: list[Text] = []
    if pool.idle:
        parts = sorted({"CPUS" if one.past is None else "GPUS" for one in pool.idle}, reverse=True)
        least = f"{pool.idle_below:g} % OF THEIR {' OR '.join(parts)}"
        title = f"WITH GPU DEVICES, USING LESS THAN {least}"
        lines += [Text(""), Text(title, style="bold")]
        told, left = foremost(pool.idle, most=most)
        lines += table(_IDLE_COLUMNS, [_idle_cells(one) for one in told], width)
        lines += others("VMs", ("" for _ in left), width)
        lines += _certainty(pool, width)
        lines += _reclaim(pool, width, most)
    if pool.cpu_untold:
        who = f"{counted(len(pool.cpu_untold), 'running VM')} with GPU devices"
        lines += _note(
            f"vCenter reports neither GPU nor CPU usage for {who}: {abridged(pool.cpu_untold, most.runs)}.",
            width,
        )
    return lines


def _idle_cells(one: IdleVm) -> list[Cell]:
    return [
        one.vm,
        one.owner,
        one.folder,
        one.host,
        _devices(one.devices),
        "" if one.past is None else percent(one.past.average_percent),
        "" if one.cpu_percent is None else percent(one.cpu_percent),
        _uptime(one.uptime_seconds),
        one.plan,
    ]


def _certainty(pool: GpuPool, width: int) -> list[Text]:
    """Say how much a row proves."""
    lines: list[Text] = []
    pasts = [one.past for one in pool.idle if one.past is not None]
    if pasts:
        reach = over(min(pasts, key=lambda past: past.span_seconds))
        lines += _note(f"GPU is the mean utilization of the VM's busiest GPU over at least {reach}.", width)
    if len(pasts) < len(pool.idle):
        words = (
            "CPU usage is only a hint: it is a snapshot, and vgpu-cfg cannot measure GPU usage. To "
            "check GPU usage, run `nvidia-smi vgpu -u` on the host (not available for MIG on Ampere)."
        )
        lines += _note(words, width)
    return lines


def _reclaim(pool: GpuPool, width: int, most: Most) -> list[Text]:
    """List what would take their GPUs back; nothing is done."""
    lines = [Text(""), Text("HOW TO RECLAIM THEM", style="bold")]
    told, left = foremost(reclaim_steps(pool), most=most)
    for step in told:
        words = f"ask {step.ask}, then {step.then}; this frees {_devices(step.frees)}"
        lines += hanging(step.vm, words, width, label_width=max(len(one.vm) for one in told))
    return lines + others("VMs", ("" for _ in left), width)


def _uptime(seconds: int | None) -> str:
    if seconds is None:
        return "unknown"
    return counted(seconds // _DAY, "day") if seconds >= 2 * _DAY else duration(seconds)


def _devices(devices: tuple[str, ...]) -> str:
    return ladder({name: devices.count(name) for name in devices})


def _note(words: str, width: int) -> list[Text]:
    return fold(Text(f"  {words}", style="dim"), width, hang=2)
