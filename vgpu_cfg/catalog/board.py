"""What is known of one board, and what a vGPU profile is on it, listed or not.

NVIDIA documents the C types board by board. Desktops on the same GPUs use A, B and
Q types, whose sizes follow the same arithmetic: it agrees with every Q type in the
vGPU device manager configuration that NVIDIA ships with gpu-operator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from vgpu_cfg.model.vgpu import Sharing, VgpuProfile

Architecture: TypeAlias = Literal["Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"]

_MOST_PER_GPU = 32
"""No time-sliced type runs more often on one GPU, however small: A40-1Q and H200-4C stop here.
Source: the same configuration."""


_INSTANCE_SUFFIXES = {"me": "+me", "meall": "+me.all", "nome": "-me", "gfx": "+gfx"}
"""How nvidia-smi writes on a GPU instance what a type's name says with letters alone."""


_ONE_PER_GPU = ("me", "meall")
"""The media engines that these take are there once. Source: NVIDIA MIG User Guide."""


@dataclass(frozen=True, slots=True)
class PciId:
    """One way in which the board shows itself on the bus; `alias` is the key of the alias it belongs to."""

    device_id: int
    subsystem_id: int | None
    name: str
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class Alias:
    """Another product with the same layout, whose profiles differ by their prefix alone."""

    key: str
    prefixes: tuple[str, ...]
    is_nvlink_p2p: bool


@dataclass(frozen=True, slots=True)
class MigProfile:
    """Where a MIG-backed profile may stand on a GPU, in memory slices.

    `instance` is the GPU instance as nvidia-smi names it, `profile_id` its number
    there. `per_instance` vGPUs share one instance by turns (1 almost everywhere).
    """

    instance: str
    profile_id: int | None
    size: int
    starts: tuple[int, ...]
    compute: int
    max_per_gpu: int
    per_instance: int = 1
    sms: int | None = None
    min_esxi: str | None = None

    @property
    def has_media_engines(self) -> bool:
        """Whether it takes the engines that only one instance of a GPU can have."""
        return "+me" in self.instance


@dataclass(frozen=True, slots=True)
class MigGeometry:
    """How a GPU in MIG mode is cut.

    Instances fit together when their memory slices do not overlap and the sum of
    their compute slices is at most `compute_slices`.
    """

    memory_slices: int
    compute_slices: int
    profiles: Mapping[str, MigProfile]
    """By profile name, as in `grid_a100-1-5c`."""

    @property
    def instances(self) -> dict[str, MigProfile]:
        """The profile that has each GPU instance whole, by the instance's name, as in `1g.5gb`."""
        return {found.instance: found for found in reversed(tuple(self.profiles.values()))}


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """A vGPU profile on a board.

    `listed` tells the documented C types from those that follow by rule: the A, B
    and Q types of other people's desktops. `max_mixed` is the maximum in mixed-size
    mode (None: not allowed, or not published), `mixed_starts` the GB at which it may
    start there (None: not published). `is_full_framebuffer` is for time-sliced types.
    """

    profile: VgpuProfile
    board: Board = field(repr=False, compare=False)
    framebuffer_mib: int
    max_per_gpu: int
    max_mixed: int | None = None
    mixed_starts: tuple[int, ...] | None = None
    mig: MigProfile | None = None
    is_full_framebuffer: bool = False
    is_nvlink_p2p: bool = False
    listed: bool = True

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def mig_size(self) -> int | None:
        return self.mig.size if self.mig else None

    @property
    def mig_starts(self) -> tuple[int, ...] | None:
        return self.mig.starts if self.mig else None

    @property
    def mig_compute(self) -> int | None:
        return self.mig.compute if self.mig else None


@dataclass(frozen=True, slots=True, eq=False)
class Board:
    """One board, or the boards that differ in nothing but their PCI ids.

    All numbers are per GPU. `mmio_gb` is the 64-bit MMIO space that a VM needs for
    one GPU (None: no large BAR, so none is needed). `mixed_placement` maps a size in
    GB to the GB at which a vGPU of that size may start (None: not published).
    `nvlink_groups` are how many GPUs can be peers of each other (empty: not published).
    `unproven` tells by the file's key what is derived or recalled, and from what.
    """

    key: str
    prefix: str
    pci_ids: tuple[PciId, ...]
    aliases: tuple[Alias, ...]
    framebuffer_mib: int
    memory_type: str
    architecture: Architecture
    gpus_per_board: int
    mmio_gb: int | None
    nvlink_p2p_profile: VgpuProfile | None
    is_nvswitch: bool
    nvlink_groups: tuple[int, ...]
    is_esxi: bool
    mig: MigGeometry | None
    mixed_placement: Mapping[int, tuple[int, ...]] | None
    note: str
    unproven: Mapping[str, str]
    sources: Mapping[str, str]
    date: str
    profiles: tuple[ProfileEntry, ...] = field(default=(), repr=False)
    """The documented C types, time-sliced before MIG-backed, large before small."""

    @property
    def names(self) -> tuple[str, ...]:
        """The product names, the first of them the board's own."""
        return tuple(dict.fromkeys(pci.name for pci in self.pci_ids))

    @property
    def name(self) -> str:
        return self.pci_ids[0].name

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The board's own prefix and those of its aliases."""
        return (self.prefix, *(prefix for alias in self.aliases for prefix in alias.prefixes))

    @property
    def framebuffer_gb(self) -> int:
        """The framebuffer as profile names print it; also the size of the mixed-size placement region."""
        return max(entry.profile.framebuffer_gb for entry in self.profiles if entry.mig is None)

    @property
    def supports_mixed_size(self) -> bool:
        """Whether mixed-size mode is documented for any profile."""
        return any(entry.max_mixed is not None for entry in self.profiles)

    @property
    def source(self) -> str:
        return "; ".join(dict.fromkeys(self.sources.values()))

    def entry(self, profile: VgpuProfile) -> ProfileEntry | None:
        """Say what a profile of any series is on this board; None where the board cannot have it."""
        return _resolve(self, profile)


def _resolve(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Say what a profile is on a board; None where the board cannot have it.

    A C type is had as documented or not at all, save that a MIG type with an
    undocumented suffix follows the same type without. A, B and Q types follow by rule.
    """
    if profile.prefix not in board.prefixes:
        return None
    if (documented := _listed(board, profile, profile.series, profile.suffix)) is not None:
        is_peer = documented.is_nvlink_p2p and _has_nvlink(board, profile.prefix)
        return replace(documented, profile=profile, is_nvlink_p2p=is_peer)
    if profile.sharing is Sharing.MIG:
        return _unlisted_mig(board, profile)
    if profile.series == "C":
        return None
    return _unlisted_time_sliced(board, profile)


def _listed(board: Board, profile: VgpuProfile, series: str, suffix: str) -> ProfileEntry | None:
    """Find the listed entry of the profile's slices and size with this series and suffix."""
    wanted = (profile.slices, profile.framebuffer_gb, series, suffix)
    for entry in board.profiles:
        found = entry.profile
        if (found.slices, found.framebuffer_gb, found.series, found.suffix) == wanted:
            return entry
    return None


def _has_nvlink(board: Board, prefix: str) -> bool:
    return prefix == board.prefix or any(
        alias.is_nvlink_p2p for alias in board.aliases if prefix in alias.prefixes
    )


def _unlisted_time_sliced(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Count whole GB, since framebuffers fall some MiB short of them (94 GB is 96246 MiB)."""
    whole_gb = board.framebuffer_gb
    size_gb = profile.framebuffer_gb
    if size_gb > whole_gb:
        return None
    twin = _listed(board, profile, "C", "")
    starts = (board.mixed_placement or {}).get(size_gb)
    return ProfileEntry(
        profile=profile,
        board=board,
        framebuffer_mib=_size_mib(board, size_gb),
        max_per_gpu=min(_MOST_PER_GPU, whole_gb // size_gb if size_gb else 2 * whole_gb),
        max_mixed=len(starts) if starts else twin.max_mixed if twin else None,
        mixed_starts=starts,
        is_full_framebuffer=size_gb == whole_gb,
        listed=False,
    )


def _unlisted_mig(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    twin = _listed(board, profile, "C", profile.suffix) or _with_suffix(board, profile)
    if twin is not None:
        return replace(twin, profile=profile, listed=False)
    if profile.series == "C":
        return None
    return _unlisted_in_shared_instance(board, profile)


def _with_suffix(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    plain = _listed(board, profile, "C", "")
    if plain is None or plain.mig is None:
        return None
    most = 1 if profile.suffix in _ONE_PER_GPU else plain.max_per_gpu
    instance = plain.mig.instance + _INSTANCE_SUFFIXES.get(profile.suffix, "")
    shape = replace(plain.mig, instance=instance, max_per_gpu=most)
    if profile.suffix:
        shape = replace(shape, profile_id=None)
    return replace(plain, mig=shape, max_per_gpu=most)


def _unlisted_in_shared_instance(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Cut the instance of these slices evenly, on a board whose instances can be shared."""
    alike = [entry for entry in board.profiles if entry.mig and entry.profile.slices == profile.slices]
    if profile.framebuffer_gb == 0 or not any(entry.mig and entry.mig.per_instance > 1 for entry in alike):
        return None
    whole = max(alike, key=lambda entry: entry.profile.framebuffer_gb)
    per_instance = whole.profile.framebuffer_gb // profile.framebuffer_gb
    if whole.mig is None or per_instance == 0:
        return None
    most = whole.max_per_gpu * per_instance
    return ProfileEntry(
        profile=profile,
        board=board,
        framebuffer_mib=_size_mib(board, profile.framebuffer_gb),
        max_per_gpu=most,
        mig=replace(whole.mig, max_per_gpu=most, per_instance=per_instance),
        listed=False,
    )


def _size_mib(board: Board, size_gb: int) -> int:
    return min(size_gb * 1024, board.framebuffer_mib) or 512
