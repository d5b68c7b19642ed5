"""An inventory on a terminal: hosts, GPUs, NICs, datastores, cordons, and the changes since a reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.text import Text

from vgpu_cfg.changes.values import edit_text
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, listed
from vgpu_cfg.planning.site_changes import Fate, SiteChange
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, fold, size, table, table_rows
from vgpu_cfg.render.layout.most import USUAL, Most, first_screen, foremost, foremost_groups, others
from vgpu_cfg.render.views.estate.inventory import CordonRow, GpuRow, HostRow, InventoryView, profile_text
from vgpu_cfg.render.views.estate.topology import above_text, ats_text, nic_text, nvlink_text, short

_COLUMNS = (
    Column("HOST"),
    Column("GPU"),
    Column("REASON", is_flexible=True),
    Column("BY", is_flexible=True),
    Column("SINCE"),
)
_GPU_COLUMNS = (
    Column("PCI"),
    Column("BOARD", is_flexible=True),
    Column("NODE", is_right=True),
    Column("MODE"),
    Column("USED BY", is_flexible=True),
    Column("FREE", is_flexible=True),
)
_SIGNS = {Fate.CAME: ("+", "green"), Fate.WENT: ("-", "red"), Fate.CHANGED: ("~", "yellow")}
_CHANGE_COLUMNS = (
    Column(""),
    Column("WHAT"),
    Column("NAME", is_flexible=True),
    Column("CHANGE", is_flexible=True),
)


def render_inventory(view: InventoryView, width: int, *, with_all: bool = False) -> list[Text]:
    """Lay out the tables; datastores, NICs and hosts without GPUs are shown only with `with_all`."""
    return first_screen(lambda most: _rendered(view, width, most), len(view.hosts), with_all=with_all)


def _rendered(view: InventoryView, width: int, most: Most) -> list[Text]:
    with_all = most.is_all
    hosts = [host for host in view.hosts if with_all or host.gpus]
    names = {host.name for host in hosts}
    gpus = sum(host.gpus for host in view.hosts)
    left = Text.assemble((view.server, "bold"), f"  vCenter {view.version}, API {view.api_version}")
    right = Text(f"{counted(len(view.hosts), 'host')}, {counted(gpus, 'GPU')}")
    lines = both_ends(left, right, width)
    told, rest = foremost(hosts, lambda host: host.state == "ok", most)
    lines += _titled("HOSTS", _hosts(told), width)
    lines += others("hosts", (host.state for host in rest), width)
    lines += render_cordons(view.cordons, width, most)
    shown = _hosts_with_gpus(view, most)
    lines += _gpus(view, shown, width)
    lines += _links(view, shown, width)
    lines += _titled("DEVICE GROUPS", _device_groups(view), width)
    profiles = _profiles(view)
    used, unused = foremost(profiles.rows, most=most)
    lines += _titled("VGPUS", _Table(profiles.columns, used), width)
    lines += others("profiles", ("" for _ in unused), width)
    if with_all:
        lines += _wiring(view, width)
        lines += _titled("NICS", _nics(view, names), width)
        lines += _titled("DATASTORES", _datastores(view), width)
    if not view.gpus:
        lines += [Text(""), Text("vSphere reports no GPUs on any host.")]
    return lines


@dataclass(frozen=True, slots=True)
class _Table:
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Cell]]


def _titled(title: str, content: _Table, width: int) -> list[Text]:
    if not content.rows:
        return []
    return [Text(""), Text(title, style="bold"), *table(content.columns, content.rows, width)]


def _hosts(hosts: Sequence[HostRow]) -> _Table:
    columns = (
        Column("HOST"),
        Column("CLUSTER"),
        Column("ESXI", drop=1),
        Column("STATE"),
        Column("GRAPHICS", drop=2),
        Column("POLICY", drop=6),
        Column("GPUS", is_right=True),
        Column("CORES", is_right=True, drop=4),
        Column("MEMORY", is_right=True, drop=3),
        Column("NODES", is_right=True, drop=5),
        Column("VMS ON", is_right=True),
    )
    rows: list[list[Cell]] = [
        [
            host.name,
            host.cluster,
            host.version,
            Text(host.state, style="" if host.state == "ok" else "yellow"),
            host.graphics_type,
            host.assignment_policy,
            str(host.gpus),
            str(host.cores),
            size(host.memory_mib),
            str(host.numa_nodes),
            f"{host.vms_on} of {host.vms}",
        ]
        for host in hosts
    ]
    return _Table(columns, rows)


def _hosts_with_gpus(view: InventoryView, most: Most) -> set[str]:
    """Name the hosts whose GPUs are all shown: if there are very many, first those with an obstacle."""
    by_host: dict[str, list[GpuRow]] = {}
    for gpu in view.gpus:
        by_host.setdefault(gpu.host, []).append(gpu)
    told, _ = foremost_groups(tuple(by_host.items()), lambda gpu: not gpu.obstacle, most)
    return {host for host, _ in told}


def _state(gpu: GpuRow) -> str:
    return "not ready" if gpu.obstacle else "in use" if gpu.holders else "free"


def _gpus(view: InventoryView, shown: set[str], width: int) -> list[Text]:
    """Lay out one table per host, all with the same columns, under the host's name and NUMA nodes."""
    if not view.gpus:
        return []
    lines = [Text(""), Text("GPUS", style="bold")]
    told = [gpu for gpu in view.gpus if gpu.host in shown]
    cells = [_gpu_cells(gpu) for gpu in told]
    heading, *body = table_rows(_GPU_COLUMNS, cells, width, indent=4)
    lines += heading
    nodes: dict[str, list[str]] = {}
    for row in view.numa_nodes:
        words = f"node {row.node}: {row.cores} cores, {size(row.memory_mib)}"
        nodes.setdefault(row.host, []).append(words)
    host = ""
    for gpu, entry in zip(told, body, strict=True):
        if gpu.host != host:
            host = gpu.host
            reported = f"   {'; '.join(nodes.get(host, ()))}".rstrip()
            lines += fold(Text.assemble("  ", (host, "bold"), (reported, "dim")), width, hang=4)
        lines += entry
    left = [gpu for gpu in view.gpus if gpu.host not in shown]
    hosts = counted(len({gpu.host for gpu in left}), "host")
    return lines + others(f"GPUs of {hosts}", (_state(gpu) for gpu in left), width)


def _gpu_cells(gpu: GpuRow) -> list[Cell]:
    return [
        gpu.pci_id,
        gpu.board,
        _node(gpu.numa_node),
        f"{gpu.mode} ({gpu.label})" if gpu.label else gpu.mode,
        held_by(gpu),
        Text(gpu.obstacle or gpu.free, style=_free_style(gpu)),
    ]


def _links(view: InventoryView, shown: set[str], width: int) -> list[Text]:
    """Lay out whom NVLink joins and which NICs are near, GPUs of a host that are alike in one row."""
    grouped: dict[tuple[str, str, str, str], list[str]] = {}
    for gpu in view.gpus:
        row = (gpu.host, _node(gpu.numa_node), nvlink_text(gpu.nvlink, gpu.module), nic_text(gpu.nics_near))
        if any(row[2:]) and gpu.host in shown:
            grouped.setdefault(row, []).append(short(gpu.pci_id))
    columns = (
        Column("HOST", is_flexible=True),
        Column("GPUS", is_flexible=True),
        Column("NODE", is_right=True),
        Column("NVLINK", is_flexible=True),
        Column("NEAREST NICS", is_flexible=True),
    )
    rows: list[list[Cell]] = []
    last = ""
    for (host, node, nvlink, nics), gpus in grouped.items():
        rows.append(["" if host == last else host, ", ".join(gpus), node, nvlink, nics])
        last = host
    lines = _titled("LINKS", _Table(columns, rows), width)
    lines += others("hosts", ("" for _ in {gpu.host for gpu in view.gpus} - shown), width) if rows else []
    for found in view.disagreements:
        lines += fold(Text(f"  {found.code} {found.host}: {found.message}", "yellow"), width, hang=4)
    return lines


def _device_groups(view: InventoryView) -> _Table:
    """Lay out the vendors' device groups, those of hosts that offer the same ones together."""
    offers: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for group in view.device_groups:
        parts = tuple(f"{part.count} x {part.device or part.kind}" for part in group.parts)
        offers.setdefault((group.name, parts), []).append(group.host)
    columns = (
        Column("HOST", is_flexible=True),
        Column("NAME", is_flexible=True),
        Column("MEMBERS", is_flexible=True),
    )
    rows: list[list[Cell]] = []
    last = ""
    for (name, parts), found in offers.items():
        hosts = listed(found)
        rows.append(["" if hosts == last else hosts, name, ", ".join(parts)])
        last = hosts
    return _Table(columns, rows)


def _wiring(view: InventoryView, width: int) -> list[Text]:
    """Lay out the bridges above each GPU and NIC, and the ATS chain of each VM that has both."""
    columns = (
        Column("HOST", is_flexible=True),
        Column("PCI"),
        Column("WHAT", is_flexible=True),
        Column("NODE", is_right=True),
        Column("UPSTREAM", is_flexible=True),
    )
    rows: list[list[Cell]] = [
        [row.host, short(row.pci_id), row.name, _node(row.numa_node), above_text(row)] for row in view.wiring
    ]
    lines = _titled("WIRING", _Table(columns, rows), width) if rows else []
    chains = (Column("VM", is_flexible=True), Column("NIC"), Column("ATS", is_flexible=True))
    told: list[list[Cell]] = [[row.vm, short(row.nic), ats_text(row.links)] for row in view.ats]
    return lines + (_titled("ATS", _Table(chains, told), width) if told else [])


def held_by(gpu: GpuRow) -> str:
    """Say who holds a GPU, VMs of one profile together: "2 x grid_a100-10c (a, b)"."""
    by_profile: dict[str, list[str]] = {}
    for holder in gpu.holders:
        by_profile.setdefault(holder.profile, []).append(holder.vm)
    parts = []
    for profile, vms in by_profile.items():
        shown = list(dict.fromkeys(vms))
        names = ", ".join(shown[:2]) + (f" and {len(shown) - 2} more" if len(shown) > 2 else "")
        parts.append(f"{profile_text([profile] * len(vms))} ({names})" if profile else names)
    return "; ".join(parts)


def _free_style(gpu: GpuRow) -> str:
    if gpu.obstacle:
        return "yellow"
    return "dim" if gpu.free == "none" else "green"


def _profiles(view: InventoryView) -> _Table:
    columns = (
        Column("PROFILE"),
        Column("SERIES"),
        Column("SHARING"),
        Column("ON", is_right=True),
        Column("OFF", is_right=True),
        Column("HOSTS", is_right=True),
    )
    rows = [
        [row.profile, row.series, row.sharing, str(row.running), str(row.off), str(row.hosts)]
        for row in view.profiles
    ]
    return _Table(columns, rows)


def _nics(view: InventoryView, names: set[str]) -> _Table:
    columns = (
        Column("HOST", is_flexible=True),
        Column("NIC"),
        Column("PCI"),
        Column("MODEL", is_flexible=True),
        Column("GBPS", is_right=True),
        Column("NODE", is_right=True),
        Column("USE"),
    )
    rows = [
        [
            row.host,
            row.device,
            row.pci_id,
            row.model,
            f"{row.speed_mbps / 1000:g}" if row.speed_mbps else "down" * bool(row.device),
            _node(row.numa_node),
            row.use,
        ]
        for row in view.nics
        if row.host in names
    ]
    return _Table(columns, rows)


def _datastores(view: InventoryView) -> _Table:
    columns = (
        Column("DATASTORE", is_flexible=True),
        Column("TYPE"),
        Column("FREE", is_right=True),
        Column("OF", is_right=True),
        Column("STATE"),
    )
    rows = [
        [
            row.name,
            row.kind,
            size(row.free_mib),
            size(row.capacity_mib),
            "ok" if row.is_accessible else "inaccessible",
        ]
        for row in view.datastores
    ]
    return _Table(columns, rows)


def _node(node: int | None) -> str:
    return "?" if node is None else str(node)


def render_cordons(rows: Sequence[CordonRow], width: int, most: Most = USUAL) -> list[Text]:
    """Lay out the cordons; nothing where there is none."""
    if not rows:
        return []
    told, left = foremost(rows, most=most)
    cells = [[row.host, row.gpu or "all", row.reason, row.by, _since(row.since)] for row in told]
    lines = [Text(""), Text("CORDONED", style="bold"), *table(_COLUMNS, cells, width)]
    return lines + others("cordons", ("" for _ in left), width)


def _since(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M}" if text else ""


def render_site_changes(
    changes: Sequence[SiteChange], server: str, times: tuple[str, str], width: int
) -> list[Text]:
    """Lay the changes out, like ones as one; `times` say of when the two readings are."""
    before, after = times
    count = counted(len(changes), "change") if changes else "no changes"
    head = Text.assemble((server, "bold"), f": {count} from {before} to {after}")
    alike: dict[tuple[str, Fate, str], list[str]] = {}
    for change in changes:
        alike.setdefault((change.kind, change.fate, _change(change)), []).append(change.name)
    rows = [
        (Text(*_SIGNS[fate]), kind, fold_names(names), what) for (kind, fate, what), names in alike.items()
    ]
    return [*fold(head, width, hang=2), *([Text("")] if rows else []), *table(_CHANGE_COLUMNS, rows, width)]


def _change(change: SiteChange) -> str:
    return ", ".join(edit_text(edit) for edit in change.edits) or change.fate.value
