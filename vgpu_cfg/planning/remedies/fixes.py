"""The smallest thing that would make VMs fit: one VM moved, one GPU's mode changed, or more hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.wording import counted, is_at_least
from vgpu_cfg.planning.moves.movables import Movable
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.greedy import GreedyPlacer
from vgpu_cfg.planning.placement.host_state import HOST_MEMORY_SHARE, HostState
from vgpu_cfg.planning.placement.place import KeptFree, Placed

MIXED_SIZE_FROM = (8, 0, 3)
_MOST_TRIES = 300
_MOST_HOSTS = 3

FindMovables = Callable[[Sequence[int], Sequence[int]], Sequence[Movable]]
"""Lists the VMs that may move from hosts, given those in question and those that lack memory (by index)."""


@dataclass(frozen=True, slots=True)
class Fix:
    """One thing to do, in words, after which all VMs without a place have one."""

    text: str


def smallest_fix(placed: Placed, movables: FindMovables = lambda _wanted, _tight: ()) -> Fix | None:
    """Find one thing that lets all failed VMs fit beside those that have a place; None where none is known.

    A VM that runs comes first, then the mode of a GPU that nothing uses, then one to three more hosts
    like one that there is.
    """
    failed = [demand for demand, _ in placed.failed.values()]
    if not failed:
        return None
    wanted = _candidates(failed)
    shapes = {demand.shape for demand in failed}
    tight = [
        index
        for index in wanted
        if any(placed.hosts[index].refuse_host(shape) is Code.HOST_MEMORY for shape in shapes)
    ]
    trials = chain(_moves(placed, movables(wanted, tight)), _modes(placed, failed))
    for words, index, host in islice(trials, _MOST_TRIES):
        hosts = list(placed.hosts)
        hosts[index] = host
        helps = any(host.fit(shape) is not None for shape in shapes)
        if helps and _fit(hosts, failed, placed.kept):
            return Fix(words)
    return _more_hosts(placed, failed)


def _fit(hosts: Sequence[HostState], demands: Sequence[Demand], kept: KeptFree) -> bool:
    return not GreedyPlacer(kept).place(hosts, demands).left


def _candidates(failed: Sequence[Demand]) -> list[int]:
    return sorted({index for demand in failed for index, _ in demand.shape.hosts})


def _moves(placed: Placed, movables: Sequence[Movable]) -> Iterator[tuple[str, int, HostState]]:
    """Yield the hosts as they would be without one of the VMs that run there, the easiest to move first."""
    indexes = {state.host.moid: state.index for state in placed.hosts}
    for one in movables:
        home = placed.hosts[indexes[one.host.moid]]
        target = next((index for index, _ in one.shape.hosts if placed.hosts[index].fit(one.shape)), None)
        if target is None:
            continue
        how = " while it is off" if one.why_cold else ""
        words = f"move {one.vm.name} from {one.host.name} to {placed.hosts[target].host.name}{how}"
        yield words, home.index, _without(home, one)


def _without(host: HostState, gone: Movable) -> HostState:
    left = host.copy()
    left.creatable = None
    left.free_mib += gone.shape.memory_mib
    left.holders = {pci_id: vm for pci_id, vm in left.holders.items() if vm != gone.vm.name}
    for gpu in left.gpus:
        gpu.held = [held for held in gpu.held if held.vm != gone.vm.name]
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


def _more_hosts(placed: Placed, failed: Sequence[Demand]) -> Fix | None:
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
                return Fix(f"add {counted(count, 'host')} like {model.host.name}")
    return None


def _emptied(host: HostState) -> HostState:
    empty = host.copy()
    empty.creatable = None
    empty.holders, empty.residents, empty.node_lines = {}, {}, {}
    empty.free_mib = int(host.host.memory_mib * HOST_MEMORY_SHARE)
    for gpu in empty.gpus:
        gpu.held = []
    return empty
