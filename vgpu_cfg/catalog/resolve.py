"""How a profile that no table lists follows from those that are listed.

NVIDIA documents the C types board by board. Desktops on the same GPUs use A, B and
Q types, whose sizes follow the same arithmetic. How many of one fit a GPU is known where a
board's file says it (`other_series`); elsewhere what its framebuffer has room for is no more
than a bound, and the entry says so: the RTX PRO 4500 takes fewer than would fit.
"""

from __future__ import annotations

from dataclasses import replace

from vgpu_cfg.catalog.board import Board, ProfileEntry
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile

MOST_PER_GPU = 32
"""No time-sliced type runs more often on one GPU, however small: A40-1Q and H200-4C stop here.
Source: the same configuration."""

_INSTANCE_SUFFIXES = {"me": "+me", "meall": "+me.all", "nome": "-me", "gfx": "+gfx"}
"""nvidia-smi's suffixes of a GPU instance for the letters in a type's name."""

_ONE_PER_GPU = ("me", "meall")
"""The media engines that these take are there once. Source: NVIDIA MIG User Guide."""


_SAME_NUMBER = ("gfx", "nome")
"""Of these a GPU has as many instances as without: `mig -lgip` prints 4/4 for 1g.24gb, +gfx and -me."""


def resolve_profile(board: Board, profile: VgpuProfile) -> ProfileEntry | None:
    """Return a profile's facts on a board; None if the board cannot have it.

    A C type is had as documented or not at all, save that a MIG type with an undocumented suffix follows the
    same type without. A, B and Q types follow by rule.
    """
    if profile.prefix not in board.prefixes:
        return None
    if (documented := _listed(board, profile, profile.series, profile.suffix)) is not None:
        is_peer = documented.is_nvlink_p2p and _has_nvlink(board, profile.prefix)
        return replace(documented, profile=profile, is_nvlink_p2p=is_peer)
    if profile.sharing is Sharing.MIG:
        found = _unlisted_mig(board, profile)
    else:
        found = None if profile.series == "C" else _unlisted_time_sliced(board, profile)
    return found if found is None or profile.series == "C" else _as_far_as_known(board, found)


def _as_far_as_known(board: Board, entry: ProfileEntry) -> ProfileEntry:
    """Give an A, B or Q type the maximum that the board's file names, or mark its own as a bound."""
    profile = entry.profile
    plain = profile.model_copy(update={"suffix": ""}) if profile.suffix in _SAME_NUMBER else profile
    most = board.other_series.get(plain.name.removeprefix(f"{profile.prefix}-"))
    if most is None:
        is_known = entry.max_per_gpu == 1
        return replace(entry, is_max_known=is_known)
    if entry.mig is not None:
        entry = replace(entry, mig=replace(entry.mig, max_per_gpu=most))
    return replace(entry, max_per_gpu=most)


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
    if size_gb > whole_gb or not board.profiles:
        return None
    twin = _listed(board, profile, "C", "")
    starts = (board.mixed_placement or {}).get(size_gb)
    return ProfileEntry(
        profile=profile,
        board=board,
        framebuffer_mib=_size_mib(board, size_gb),
        max_per_gpu=min(MOST_PER_GPU, whole_gb // size_gb if size_gb else 2 * whole_gb),
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
