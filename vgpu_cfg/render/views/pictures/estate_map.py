"""An estate as a picture: clusters, hosts and NUMA nodes, and each GPU as a strip with its vGPUs to scale.

Every number is in the inventory's rows and in the pool, too; only the position of a vGPU is added here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed, needs_of
from vgpu_cfg.planning.pool.gpus import PooledGpu, PoolMode, pooled_gpus
from vgpu_cfg.render.layout.profiles import label_of
from vgpu_cfg.render.views.estate.inventory import (
    GpuRow,
    HostRow,
    InventoryView,
    NicRow,
    NumaRow,
    view_inventory,
)
from vgpu_cfg.render.views.estate.topology import AtsRow, WiredRow, nic_text, nvlink_text


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a GPU's strip; `start` and `size` are in the unit of its GPU.

    `kind` is "used", "free", "bound" (only vGPUs of the size that runs there can have it), "lost" (no profile
    can) or "closed" (the GPU takes nothing now). All but "used" are drawn by amount: their position on the
    GPU is unknown.
    """

    kind: str
    start: float
    size: float
    vm: str = ""
    profile: str = ""
    label: str = ""


@dataclass(frozen=True, slots=True)
class MapGpu:
    """A GPU. `pieces` fill `units` of `unit`, "memory slices" (MIG) or "GB", from 0 without a gap."""

    pci_id: str
    board: str
    mode: str
    memory_mib: int
    free_mib: int
    lost_mib: int
    bound_mib: int
    free: str
    obstacle: str
    stranded: tuple[str, ...]
    nvlink: str
    nics: str
    label: str
    unit: str
    units: float
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class MapNode:
    """A NUMA node with its GPUs and NICs; `node` is None for devices of an unknown node."""

    node: int | None
    cores: int
    memory_mib: int
    gpus: tuple[MapGpu, ...]
    nics: tuple[NicRow, ...]


@dataclass(frozen=True, slots=True)
class MapHost:
    """A host, its nodes in order, how its GPUs and NICs are wired, and the ATS chains of its VMs."""

    about: HostRow
    nodes: tuple[MapNode, ...]
    wiring: tuple[WiredRow, ...]
    ats: tuple[AtsRow, ...]


@dataclass(frozen=True, slots=True)
class MapVm:
    """A VM with a vGPU or a GPU on the picture; `plan` is empty where no plan has marked it."""

    name: str
    plan: str
    power: str


@dataclass(frozen=True, slots=True)
class MapTotals:
    """The sums of the picture: `idle` GPUs could serve and hold nothing, `closed` ones take nothing."""

    hosts: int
    gpus: int
    idle: int
    closed: int
    vms: int
    memory_mib: int
    free_mib: int
    lost_mib: int
    bound_mib: int


@dataclass(frozen=True, slots=True)
class EstateMap:
    """The picture, with the server that it was read from; clusters by name, hosts without one last."""

    server: str
    version: str
    api_version: str
    read_at: str
    totals: MapTotals
    clusters: tuple[tuple[str, tuple[MapHost, ...]], ...]
    vms: tuple[MapVm, ...]


def view_map(
    observed: Inventory, catalog: Catalog, *, wants_host: Callable[[str], bool] = lambda _: True
) -> EstateMap:
    """Draw the hosts that are wanted by name."""
    view = view_inventory(observed, catalog, wants_host=wants_host)
    pooled = pooled_gpus(observed, catalog, wants_host=wants_host)
    drawn = _Strips(catalog)
    places = {(one.host, one.pci_id): one for one in pooled}
    gpus: dict[str, list[tuple[int | None, MapGpu]]] = {}
    for row in view.gpus:
        gpu = drawn.gpu(row, places[row.host, row.pci_id])
        gpus.setdefault(row.host, []).append((row.numa_node, gpu))
    holders = {run.vm for one in pooled for run in one.runs if run.vm}
    return EstateMap(
        server=view.server,
        version=view.version,
        api_version=view.api_version,
        read_at=view.read_at,
        totals=_totals(view, pooled, len(holders)),
        clusters=_clusters(view, gpus),
        vms=tuple(
            MapVm(vm.name, vm.mark.plan if vm.mark else "", vm.power_state.value)
            for vm in sorted(observed.vms, key=lambda one: one.name)
            if vm.name in holders and not vm.is_template
        ),
    )


def _totals(view: InventoryView, pooled: tuple[PooledGpu, ...], vms: int) -> MapTotals:
    return MapTotals(
        hosts=len(view.hosts),
        gpus=len(pooled),
        idle=sum(one.is_idle for one in pooled),
        closed=sum(bool(one.obstacle) for one in pooled),
        vms=vms,
        memory_mib=sum(row.memory_mib for row in view.gpus),
        free_mib=sum(one.free_framebuffer_mib for one in pooled),
        lost_mib=sum(one.lost_mib for one in pooled),
        bound_mib=sum(one.bound_mib for one in pooled),
    )


def _clusters(
    view: InventoryView, gpus: dict[str, list[tuple[int | None, MapGpu]]]
) -> tuple[tuple[str, tuple[MapHost, ...]], ...]:
    numa: dict[str, dict[int, NumaRow]] = {}
    for row in view.numa_nodes:
        numa.setdefault(row.host, {})[row.node] = row
    nics: dict[str, list[NicRow]] = {}
    for nic in view.nics:
        nics.setdefault(nic.host, []).append(nic)
    wiring: dict[str, list[WiredRow]] = {}
    for wired in view.wiring:
        wiring.setdefault(wired.host, []).append(wired)
    chains: dict[str, list[AtsRow]] = {}
    for chain in view.ats:
        chains.setdefault(chain.host, []).append(chain)
    clusters: dict[str, list[MapHost]] = {}
    for host in view.hosts:
        name = host.name
        nodes = tuple(_nodes(numa.get(name, {}), gpus.get(name, []), nics.get(name, [])))
        clusters.setdefault(host.cluster, []).append(
            MapHost(host, nodes, tuple(wiring.get(name, ())), tuple(chains.get(name, ())))
        )
    return tuple((name, tuple(clusters[name])) for name in sorted(clusters, key=lambda one: (not one, one)))


def _nodes(
    numa: dict[int, NumaRow], gpus: list[tuple[int | None, MapGpu]], nics: list[NicRow]
) -> Iterator[MapNode]:
    told = {*numa, *(node for node, _ in gpus), *(nic.numa_node for nic in nics)}
    for node in sorted(told, key=lambda one: (one is None, one or 0)):
        row = numa.get(node) if node is not None else None
        yield MapNode(
            node,
            row.cores if row else 0,
            row.memory_mib if row else 0,
            tuple(gpu for where, gpu in gpus if where == node),
            tuple(nic for nic in nics if nic.numa_node == node),
        )


class _Strips:
    """Lays vGPUs out on GPUs."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self._needs: dict[str, dict[str, VgpuNeed]] = {}

    def gpu(self, row: GpuRow, pooled: PooledGpu) -> MapGpu:
        """Draw one GPU, whose two rows are of one reading."""
        board = self._catalog.boards.get(pooled.board_key)
        units, unit = _scale(board, pooled.mode, row.memory_mib)
        used = self._used(pooled, units)
        shares = {
            "bound": _share(pooled.bound_mib, row.memory_mib) * units,
            "closed": units if pooled.obstacle else 0.0,
            "free": units,
        }
        lost = _share(pooled.lost_mib, row.memory_mib) * units
        return MapGpu(
            pci_id=row.pci_id,
            board=row.board,
            mode=row.mode if pooled.mode is PoolMode.UNKNOWN and row.mode else str(pooled.mode),
            memory_mib=row.memory_mib,
            free_mib=pooled.free_framebuffer_mib,
            lost_mib=pooled.lost_mib,
            bound_mib=pooled.bound_mib,
            free=row.free,
            obstacle=pooled.obstacle,
            stranded=tuple(one.text for one in pooled.stranded),
            nvlink=nvlink_text(row.nvlink, row.module),
            nics=nic_text(row.nics_near),
            label=row.label,
            unit=unit,
            units=units,
            pieces=tuple(_filled(used, units, shares, lost)),
        )

    def _used(self, pooled: PooledGpu, units: float) -> list[Piece]:
        pieces: list[Piece] = []
        turns: Counter[int] = Counter()
        end = 0.0
        for run in pooled.runs:
            need = self._need(run.profile, pooled.board_key) if run.profile else None
            if need is None:
                pieces.append(Piece("used", 0.0, units, run.vm, run.profile, run.profile or "whole GPU"))
                break
            start, size = end, float(need.size_gb)
            if need.is_mig:
                size = need.mig_size / need.mig_per_instance
            if run.start is not None:
                # vGPUs that share an instance by turns stand side by side in it.
                start = run.start + turns[run.start] * size if need.is_mig else float(run.start)
                turns[run.start] += 1
            end = max(end, start + size)
            pieces.append(Piece("used", start, size, run.vm, run.profile, label_of(run.profile)))
        return sorted(pieces, key=lambda one: one.start)

    def _need(self, profile: str, board_key: str) -> VgpuNeed | None:
        if profile not in self._needs:
            self._needs[profile] = needs_of(profile, self._catalog)
        return self._needs[profile].get(board_key)


def _scale(board: Board | None, mode: PoolMode, memory_mib: int) -> tuple[float, str]:
    if board is not None and board.mig is not None and mode is PoolMode.MIG:
        return float(board.mig.memory_slices), "memory slices"
    return float(board.framebuffer_gb) if board is not None else max(1.0, memory_mib / 1024), "GB"


def _share(mib: int, memory_mib: int) -> float:
    return mib / memory_mib if memory_mib else 0.0


def _filled(used: Iterable[Piece], units: float, shares: dict[str, float], lost: float) -> Iterator[Piece]:
    """Yield the pieces in order: of the unused part `shares` have theirs in turn, and the end is lost."""
    least = units / 1000
    pieces, unused, end = [], [], 0.0
    for piece in used:
        pieces.append(piece)
        if piece.start - end > least:
            unused.append((end, piece.start - end))
        end = max(end, piece.start + piece.size)
    if units - end > least:
        unused.append((end, units - end))
    left = sum(size for _, size in unused) - lost
    amounts = []
    for kind, most in shares.items():
        amounts.append((kind, max(0.0, min(most, left))))
        left -= amounts[-1][1]
    for kind, amount in (*amounts, ("lost", lost)):
        rest = amount
        while unused and rest > least:
            start, size = unused.pop(0)
            pieces.append(Piece(kind, start, min(size, rest)))
            if size - rest > least:
                unused.insert(0, (start + rest, size - rest))
            rest -= size
    yield from sorted(pieces, key=lambda one: one.start)
