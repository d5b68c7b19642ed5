"""The smallest thing that would make VMs fit: one VM moved, one GPU's mode changed, or more hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.demand import Demand, Shape
from vgpu_cfg.planning.gpu_state import GpuState, Held
from vgpu_cfg.planning.greedy import GreedyPlacer
from vgpu_cfg.planning.host_state import HOST_MEMORY_SHARE, HostState
from vgpu_cfg.planning.placement import KeptFree, Placed
from vgpu_cfg.planning.words import counted, is_at_least

MIXED_SIZE_FROM = (8, 0, 3)
_MOST_TRIES = 300
_MOST_HOSTS = 3


@dataclass(frozen=True, slots=True)
class Mend:
    """One thing to do, in words, after which all VMs without a place have one."""

    words: str


def smallest_mend(placed: Placed, *, may_move: Callable[[str], bool] = lambda _: True) -> Mend | None:
    """Find one thing that lets all failed VMs fit beside those that have a place; None where none is known.

    A VM that runs comes first, then the mode of a GPU that nothing uses, then one to three more hosts
    like one that there is. `may_move` tells which VMs can be named; those of the plan never are.
    """
    failed = [demand for demand, _ in placed.failed.values()]
    trials = chain(_moves(placed, failed, may_move), _modes(placed, failed))
    for words, index, host in islice(trials, _MOST_TRIES if failed else 0):
        hosts = list(placed.hosts)
        hosts[index] = host
        helps = any(host.fit(shape) is not None for shape in {demand.shape for demand in failed})
        if helps and _fit(hosts, failed, placed.kept):
            return Mend(words)
    return _more_hosts(placed, failed)


def _fit(hosts: Sequence[HostState], demands: Sequence[Demand], kept: KeptFree) -> bool:
    return not GreedyPlacer(kept).place(hosts, demands).left


def _candidates(failed: Sequence[Demand]) -> list[int]:
    return sorted({index for demand in failed for index, _ in demand.shape.hosts})


def _moves(
    placed: Placed, failed: Sequence[Demand], may_move: Callable[[str], bool]
) -> Iterator[tuple[str, int, HostState]]:
    """Yield the hosts as they would be without one of the VMs that run there, the least first."""
    found: list[tuple[float, str, int, HostState, str]] = []
    boards = {need.board_key for demand in failed for variant in demand.shape.variants for need in variant}
    for index in _candidates(failed):
        host = placed.hosts[index]
        own: dict[str, list[Held]] = {}
        for gpu in host.gpus:
            for held in gpu.held if gpu.board_key in boards else ():
                if held.need is not None and not held.is_planned:
                    own.setdefault(held.vm, []).append(held)
        for vm, vgpus in sorted(own.items()):
            if not may_move(vm):
                continue
            share = sum(held.need.share for held in vgpus if held.need is not None)
            target = _elsewhere(placed, vgpus, index)
            words = f"move {vm} from {host.host.name} to {target}" if target else ""
            if words:
                found.append((share, words, index, _without(host, vm), vm))
    for _, words, index, state, _ in sorted(found, key=lambda one: (one[0], one[4], one[2])):
        yield words, index, state


def _elsewhere(placed: Placed, vgpus: Sequence[Held], home: int) -> str:
    """Name another host with room for vGPUs, beside all that the plan puts there; empty without one."""
    variant = tuple(held.need for held in vgpus if held.need is not None)
    cluster = placed.hosts[home].host.compute_moid
    for host in placed.hosts:
        is_near = host.index != home and host.host.is_usable and host.host.compute_moid == cluster
        if is_near and host.fit(Shape(((host.index, 0),), (variant,))) is not None:
            return host.host.name
    return ""


def _without(host: HostState, vm: str) -> HostState:
    left = host.copy()
    left.creatable = None
    for gpu in left.gpus:
        gpu.held = [held for held in gpu.held if held.vm != vm]
    return left


def _modes(placed: Placed, failed: Sequence[Demand]) -> Iterator[tuple[str, int, HostState]]:
    """Yield the hosts as they would be with the mode of one unused GPU changed.

    What a host offers may follow from the modes of its GPUs: any profile of the board is taken to be.
    """
    wanted = {need for demand in failed for variant in demand.shape.variants for need in variant}
    for index in _candidates(failed):
        host = placed.hosts[index]
        tried: set[tuple[object, ...]] = set()
        for place, gpu in enumerate(host.gpus):
            if not gpu.is_idle or gpu.signature() in tried:
                continue
            tried.add(gpu.signature())
            for words, changed in _other_modes(gpu, host):
                state = host.copy()
                state.creatable = None
                state.offered |= {need.name for need in wanted if need.board_key == gpu.board_key}
                state.gpus[place] = changed
                yield words.format(f"GPU {gpu.pci_id} of {host.host.name}"), index, state


def _other_modes(gpu: GpuState, host: HostState) -> Iterator[tuple[str, GpuState]]:
    def changed(sharing: Sharing, mode: VgpuMode) -> GpuState:
        other = gpu.copy()
        other.sharing, other.mode = sharing, mode
        return other

    board = gpu.board
    if board is None:
        return
    if gpu.sharing is Sharing.MIG:
        yield "turn MIG mode off for {}", changed(Sharing.TIME_SLICED, VgpuMode.SAME_SIZE)
    elif board.mig is not None:
        yield "turn MIG mode on for {}", changed(Sharing.MIG, VgpuMode.SAME_SIZE)
    if gpu.sharing is not Sharing.MIG and gpu.mode is VgpuMode.SAME_SIZE:
        if board.supports_mixed_size and is_at_least(host.host.version, MIXED_SIZE_FROM):
            yield "set {} to mixed-size mode", changed(Sharing.TIME_SLICED, VgpuMode.MIXED_SIZE)
    elif gpu.sharing is not Sharing.MIG:
        yield "set {} to same-size mode", changed(Sharing.TIME_SLICED, VgpuMode.SAME_SIZE)


def _more_hosts(placed: Placed, failed: Sequence[Demand]) -> Mend | None:
    """Try one to three more hosts like one of those in question, with nothing on them."""
    if any(demand.stays or demand.shape.fixed for demand in failed):
        return None
    tried: set[tuple[object, ...]] = set()
    for index in _candidates(failed):
        model = _emptied(placed.initial[index])
        kind = (model.host.version, model.free_mib, *(gpu.signature() for gpu in model.gpus))
        if kind in tried:
            continue
        tried.add(kind)
        for count in range(1, _MOST_HOSTS + 1):
            hosts = list(placed.hosts)
            for _ in range(count):
                more = model.copy()
                more.index = len(hosts)
                hosts.append(more)
            new = tuple((len(placed.hosts) + number, 0) for number in range(count))
            wider = [
                replace(demand, shape=replace(demand.shape, hosts=(*demand.shape.hosts, *new)))
                for demand in failed
            ]
            if _fit(hosts, wider, placed.kept):
                return Mend(f"add {counted(count, 'host')} like {model.host.name}")
    return None


def _emptied(host: HostState) -> HostState:
    empty = host.copy()
    empty.creatable = None
    empty.holders, empty.residents, empty.node_lines = {}, {}, {}
    empty.free_mib = int(host.host.memory_mib * HOST_MEMORY_SHARE)
    for gpu in empty.gpus:
        gpu.held = []
    return empty
