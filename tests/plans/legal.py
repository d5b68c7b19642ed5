"""What a GPU can hold at once, told apart from the planner."""

from __future__ import annotations

from collections.abc import Iterable

from vgpu_cfg.catalog import ProfileEntry
from vgpu_cfg.model.inventory import Gpu
from vgpu_cfg.model.vgpu import Sharing, VgpuMode


def is_legal(gpu: Gpu, held: Iterable[ProfileEntry]) -> bool:
    """Whether a GPU in same-size mode or MIG mode can hold these at once, told apart from the planner."""
    entries = list(held)
    if not entries:
        return True
    if {entry.profile.sharing for entry in entries} != {gpu.sharing}:
        return False
    if gpu.sharing is Sharing.MIG:
        geometry = entries[0].board.mig
        assert geometry is not None
        compute = sum(entry.mig_compute or 0 for entry in entries)
        counts = all(sum(one.name == entry.name for one in entries) <= entry.max_per_gpu for entry in entries)
        return counts and compute <= geometry.compute_slices and _packs(entries, frozenset())
    if gpu.vgpu_mode is VgpuMode.MIXED_SIZE:
        return sum(entry.framebuffer_mib for entry in entries) <= entries[0].board.framebuffer_mib
    sizes = {entry.framebuffer_mib for entry in entries}
    return len(sizes) == 1 and len(entries) <= min(entry.max_per_gpu for entry in entries)


def _packs(entries: list[ProfileEntry], taken: frozenset[int]) -> bool:
    if not entries:
        return True
    first, rest = entries[0], entries[1:]
    for start in first.mig_starts or ():
        wanted = set(range(start, start + (first.mig_size or 0)))
        if taken.isdisjoint(wanted) and _packs(rest, taken | wanted):
            return True
    return False
