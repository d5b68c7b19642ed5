"""What a GPU can hold at once, told apart from the planner."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from vgpu_cfg.catalog import ProfileEntry
from vgpu_cfg.model.observed.inventory import Gpu
from vgpu_cfg.model.vgpu import Sharing, VgpuMode


def is_legal(gpu: Gpu, held: Iterable[ProfileEntry]) -> bool:
    """Whether a GPU can hold these at once, in whatever order they came; told apart from the planner."""
    entries = list(held)
    if not entries:
        return True
    if {entry.profile.sharing for entry in entries} != {gpu.sharing}:
        return False
    if gpu.sharing is Sharing.MIG:
        geometry = entries[0].board.mig
        assert geometry is not None
        own = _instances(entries)
        compute = sum(entry.mig_compute or 0 for entry in own)
        counts = all(sum(one.name == entry.name for one in entries) <= entry.max_per_gpu for entry in entries)
        rows = [(entry.mig_size or 0, entry.mig_starts or ()) for entry in own]
        return counts and compute <= geometry.compute_slices and _packs(rows, frozenset())
    if gpu.vgpu_mode is VgpuMode.MIXED_SIZE:
        if sum(entry.framebuffer_mib for entry in entries) > entries[0].board.framebuffer_mib:
            return False
        known = [(entry.profile.framebuffer_gb, entry.mixed_starts) for entry in entries]
        return _packs([(size, starts) for size, starts in known if starts is not None], frozenset())
    sizes = {entry.framebuffer_mib for entry in entries}
    return len(sizes) == 1 and len(entries) <= min(entry.max_per_gpu for entry in entries)


def _instances(entries: list[ProfileEntry]) -> list[ProfileEntry]:
    """Leave one entry for each GPU instance: some are shared by several vGPUs of one type."""
    counts: Counter[str] = Counter()
    own: list[ProfileEntry] = []
    for entry in entries:
        shared_by = entry.mig.per_instance if entry.mig is not None else 1
        if counts[entry.name] % shared_by == 0:
            own.append(entry)
        counts[entry.name] += 1
    return own


def _packs(rows: Sequence[tuple[int, tuple[int, ...]]], taken: frozenset[int]) -> bool:
    if not rows:
        return True
    (size, starts), rest = rows[0], rows[1:]
    for start in starts:
        wanted = set(range(start, start + size))
        if taken.isdisjoint(wanted) and _packs(rest, taken | wanted):
            return True
    return False
