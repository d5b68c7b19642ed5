"""Free parts of a GPU that are unusable, or usable for one size only, at present.

Lost parts fit no profile any longer: between placements, beyond the last slice. Locked parts fit only one
profile size until a VM goes. Sources of the rules: see planning/capacity/gpu_state.py.

The possible number of vGPUs, if more are refused once some exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise

from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import counted, listed, whole_gib
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed

LEAST_MIB = 512
"""Less than this is rounding: profiles of one GPU add up to some MiB less than its framebuffer."""


class StrandedKind(StrEnum):
    """In which way something of a GPU is stranded."""

    FRAMEBUFFER = "framebuffer"
    """Free framebuffer that is too little for any profile that may join."""
    PLACEMENT = "placement"
    """Mixed sizes: free GB where no profile may start."""
    MEMORY_SLICES = "memory_slices"
    """MIG: free memory slices that no instance can have."""
    COMPUTE_SLICES = "compute_slices"
    """MIG: compute slices without memory for them."""
    SIZE_LOCK = "size_lock"
    """Same size: framebuffer that only the size which runs there can have."""
    SHARED_INSTANCE = "shared_instance"
    """MIG: room in an instance that only its own profile can have."""
    NVLINK = "nvlink"
    """A GPU whose NVLink peer is used alone."""


_BOUND = (StrandedKind.SIZE_LOCK, StrandedKind.SHARED_INSTANCE)


@dataclass(frozen=True, slots=True)
class Stranding:
    """One thing that is stranded on a GPU, and the VMs that it would be free without.

    `size_gb` is the one size that bound framebuffer is for, None for a lost part.
    """

    kind: StrandedKind
    text: str
    framebuffer_mib: int = 0
    compute_slices: int = 0
    size_gb: int | None = None
    vms: tuple[str, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Whether vGPUs of one size can still have it."""
        return self.kind in _BOUND

    @property
    def lost_mib(self) -> int:
        """The framebuffer that cannot be used."""
        return 0 if self.is_bound else self.framebuffer_mib

    @property
    def bound_mib(self) -> int:
        """The framebuffer that only one size can have."""
        return self.framebuffer_mib if self.is_bound else 0


def find_stranded(gpu: GpuState, needs: Sequence[VgpuNeed]) -> tuple[Stranding, ...]:
    """List the stranded parts of a GPU with vGPUs; `needs` are the profiles that it could be given.

    Nothing is stranded on an idle GPU, and nothing is reported for one with unknown holders.
    """
    if gpu.board is None or gpu.obstacle is not None or not gpu.held:
        return ()
    if any(held.need is None for held in gpu.held):
        return ()
    if gpu.shared_as is Sharing.MIG:
        return tuple(_of_mig(gpu, needs))
    if gpu.mode is VgpuMode.MIXED_SIZE:
        return tuple(_of_mixed_sizes(gpu, needs))
    return tuple(_of_same_size(gpu))


def _of_same_size(gpu: GpuState) -> Iterable[Stranding]:
    need = next(held.need for held in gpu.held if held.need is not None)
    room = gpu.room(need)
    bound = room * need.framebuffer_mib
    lost = gpu.free_framebuffer_mib - bound
    vms = _vms(gpu)
    if bound:
        words = f"locked to {need.size_gb} GB by {listed(vms)}"
        yield Stranding(StrandedKind.SIZE_LOCK, words, bound, size_gb=need.size_gb, vms=vms)
    if lost >= LEAST_MIB:
        words = f"{whole_gib(lost)} is too little for another {need.size_gb} GB"
        if not room and lost >= need.framebuffer_mib:
            words = f"{whole_gib(lost)} beyond the maximum number of {need.size_gb} GB vGPUs"
        yield Stranding(StrandedKind.FRAMEBUFFER, words, lost, vms=vms)


def _of_mixed_sizes(gpu: GpuState, needs: Sequence[VgpuNeed]) -> Iterable[Stranding]:
    known = [need for need in needs if need.mixed_starts is not None and not need.is_mig]
    if gpu.board is None or not known or any(held.start is None for held in gpu.held):
        yield from _of_unpublished_placements(gpu, needs)
        return
    region = gpu.board.framebuffer_gb
    taken = _taken((held.start, held.need.size_gb) for held in gpu.held if held.need)
    places = {(start, need.size_gb, 0) for need in known for start in need.mixed_starts or ()}
    free = [place for place in range(region) if place not in taken]
    lost = len(free) - _most(frozenset(places), taken, region, 0, counts_memory=True)
    if lost:
        words = f"{lost} GB at invalid positions (free: GB {_runs(free)})"
        yield Stranding(
            StrandedKind.PLACEMENT, words, lost * gpu.board.framebuffer_mib // region, vms=_vms(gpu)
        )


def _of_unpublished_placements(gpu: GpuState, needs: Sequence[VgpuNeed]) -> Iterable[Stranding]:
    """Without published placements, only parts that are too small for any size are known to be lost."""
    lost = gpu.free_framebuffer_mib
    if lost >= LEAST_MIB and all(gpu.refuse(need) is not None for need in needs):
        yield Stranding(
            StrandedKind.FRAMEBUFFER, f"{whole_gib(lost)} is too little for any size", lost, vms=_vms(gpu)
        )


def _of_mig(gpu: GpuState, needs: Sequence[VgpuNeed]) -> Iterable[Stranding]:
    geometry = gpu.board.mig if gpu.board else None
    if gpu.board is None or geometry is None or any(held.start is None for held in gpu.held):
        return
    region = geometry.memory_slices
    instances = {held.start: held.need for held in gpu.held if held.need is not None}
    taken = _taken((start, need.mig_size) for start, need in instances.items())
    compute = geometry.compute_slices - sum(need.mig_compute for need in instances.values())
    places = frozenset(
        (start, need.mig_size, need.mig_compute) for need in needs if need.is_mig for start in need.mig_starts
    )
    free = [place for place in range(region) if place not in taken]
    lost = len(free) - _most(places, taken, region, compute, counts_memory=True)
    idle = compute - _most(places, taken, region, compute, counts_memory=False)
    vms = _vms(gpu)
    if lost:
        why = "no compute slices left" if not compute else "not a valid position for any profile"
        where = f"slice {_runs(free)}" if len(free) == 1 else f"slices {_runs(free)}"
        words = f"{counted(lost, 'memory slice')} unusable: {why} (free: {where})"
        size = lost * gpu.board.framebuffer_mib // region
        yield Stranding(StrandedKind.MEMORY_SLICES, words, size, vms=vms)
    if idle:
        why = "no memory left" if not free else "not a valid position for any profile"
        words = f"{counted(idle, 'compute slice')} unused: {why}"
        yield Stranding(StrandedKind.COMPUTE_SLICES, words, compute_slices=idle, vms=vms)
    yield from _of_shared_instances(gpu)


def _of_shared_instances(gpu: GpuState) -> Iterable[Stranding]:
    """Instances that several vGPUs of one profile share by turns, if some of these are still free."""
    by_start: dict[int, list[str]] = {}
    needs: dict[int, VgpuNeed] = {}
    for held in gpu.held:
        if held.need is not None and held.start is not None:
            by_start.setdefault(held.start, []).append(held.vm)
            needs[held.start] = held.need
    for start, vms in sorted(by_start.items()):
        need = needs[start]
        left = need.mig_per_instance - len(vms)
        if left > 0:
            holders = tuple(dict.fromkeys(vms))
            words = f"instance at slice {start} locked to {need.name} by {listed(holders)}"
            size = left * need.framebuffer_mib
            yield Stranding(StrandedKind.SHARED_INSTANCE, words, size, size_gb=need.size_gb, vms=holders)


Place = tuple[int, int, int]
"""A possible place: start, length, and its compute slices."""


def _most(
    places: frozenset[Place], taken: frozenset[int], region: int, compute: int, *, counts_memory: bool
) -> int:
    """Return the most memory, in slices or GB, or the most compute that could still be given away."""
    by_start: dict[int, list[Place]] = {}
    for place in places:
        start, length, _ = place
        if start + length <= region and taken.isdisjoint(range(start, start + length)):
            by_start.setdefault(start, []).append(place)

    @cache
    def best(position: int, left: int) -> int:
        if position >= region:
            return 0
        found = best(position + 1, left)
        for _, length, cost in by_start.get(position, ()):
            if cost <= left:
                gain = length if counts_memory else cost
                found = max(found, gain + best(position + length, left - cost))
        return found

    return best(0, compute)


def _taken(spans: Iterable[tuple[int | None, int]]) -> frozenset[int]:
    return frozenset(
        place for start, length in spans if start is not None for place in range(start, start + length)
    )


def _runs(places: Sequence[int]) -> str:
    """Write sorted places in short: 0, 1, 2, 7 become "0-2, 7"."""
    cuts = [0, *(at for at, (one, two) in enumerate(pairwise(places), 1) if two != one + 1), len(places)]
    runs = [places[first:end] for first, end in pairwise(cuts)]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs if run)


def _vms(gpu: GpuState) -> tuple[str, ...]:
    return tuple(dict.fromkeys(held.vm for held in gpu.held))


def most_that(passes: Callable[[int], bool], most: int, guess: int = 0) -> int:
    """Return the largest count up to `most` that passes; none does always.

    It is looked for around a `guess`, in steps that double, then in between: a good one takes two questions.
    """
    low, high, step = 0, min(guess, most), 1
    while high > low and not passes(high):
        most, high, step = high - 1, max(low, high - step), 2 * step
    low, high, step = high, high + 1, 1
    while high <= most and passes(high):
        low, high, step = high, high + step, 2 * step
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low
