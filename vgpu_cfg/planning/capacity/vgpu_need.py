"""A vGPU's needs on a GPU, flattened from the catalog for the inner loops of placement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from vgpu_cfg.catalog import Catalog, ProfileEntry
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import Sharing


@dataclass(frozen=True, slots=True)
class VgpuNeed:
    """A profile on a board, as plain numbers.

    `max_mixed` is None if mixed-size mode is not documented, `mixed_starts` None if the placements are not
    published. If `is_max_known` is false, `max_per_gpu` is a bound by the framebuffer. The `mig_*` fields are
    0 and empty for time-sliced types. Those of a VM with one `peers` number are to be joined by NVLink.
    """

    name: str
    board_key: str
    series: str
    sharing: Sharing
    framebuffer_mib: int
    size_gb: int
    max_per_gpu: int
    max_mixed: int | None = None
    mixed_starts: tuple[int, ...] | None = None
    is_full: bool = False
    mig_size: int = 0
    mig_compute: int = 0
    mig_starts: tuple[int, ...] = ()
    mig_per_instance: int = 1
    has_media_engines: bool = False
    min_esxi: str | None = None
    peers: int | None = None
    is_max_known: bool = True

    @property
    def is_mig(self) -> bool:
        """Whether it has MIG slices of its own."""
        return self.sharing is Sharing.MIG

    @property
    def share(self) -> float:
        """The part of a GPU that it takes at least, for ordering."""
        return 1.0 / self.max_per_gpu


@cache
def vgpu_need(entry: ProfileEntry) -> VgpuNeed:
    """Flatten a catalogue entry."""
    mig = entry.mig
    return VgpuNeed(
        name=entry.name,
        board_key=entry.board.key,
        series=entry.profile.series,
        sharing=entry.profile.sharing,
        framebuffer_mib=entry.framebuffer_mib,
        size_gb=entry.profile.framebuffer_gb,
        max_per_gpu=entry.max_per_gpu,
        max_mixed=entry.max_mixed,
        mixed_starts=entry.mixed_starts,
        is_full=entry.is_full_framebuffer,
        mig_size=mig.size if mig else 0,
        mig_compute=mig.compute if mig else 0,
        mig_starts=mig.starts if mig else (),
        mig_per_instance=mig.per_instance if mig else 1,
        has_media_engines=mig.has_media_engines if mig else False,
        min_esxi=mig.min_esxi if mig else None,
        is_max_known=entry.is_max_known,
    )


def needs_of(profile: str, catalog: Catalog) -> dict[str, VgpuNeed]:
    """Return a profile's needs on each board that has it, by board key; empty if none has."""
    return {entry.board.key: vgpu_need(entry) for entry in catalog.by_profile(profile)}


def make_variants(
    gpus: Sequence[GpuEntry], needs: Callable[[str], Mapping[str, VgpuNeed]]
) -> tuple[tuple[VgpuNeed, ...], ...]:
    """List the ways to give a VM its vGPUs, the plan file's first choice first.

    All vGPUs of a VM are of one board model and series, and of one profile where they are asked for alike.
    Empty where it has none, and where nothing can satisfy all of them.
    """
    wanted = [gpu for gpu in gpus if gpu.kind == "vgpu"]
    if not wanted:
        return ()
    variants: dict[tuple[VgpuNeed, ...], None] = {}
    for profile in wanted[0].profile:
        for board_key in needs(profile.name):
            variant = [_peer(needs(profile.name)[board_key], wanted[0])]
            for gpu in wanted[1:]:
                names = (profile,) if gpu.profile == wanted[0].profile else gpu.profile
                found = (needs(one.name).get(board_key) for one in names if one.series == profile.series)
                chosen = next((need for need in found if need is not None), None)
                if chosen is None:
                    break
                variant.append(_peer(chosen, gpu))
            if len(variant) == len(wanted):
                variants[tuple(variant)] = None
    return tuple(variants)


def _peer(need: VgpuNeed, gpu: GpuEntry) -> VgpuNeed:
    return need if gpu.nvlink is None else replace(need, peers=gpu.nvlink)
