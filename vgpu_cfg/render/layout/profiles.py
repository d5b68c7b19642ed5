"""Boards and profiles in few words: counts of profiles, the largest first, and a board's PCI ids."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.catalog import NVIDIA, Board
from vgpu_cfg.model.vgpu import VgpuProfile

_SHOWN_SIZES = 4


def ladder(counts: Mapping[str, int]) -> str:
    """Write counts by profile from the largest: "2×40c, 4×20c, 8×10c … 20×4c"."""
    plain = {name: count for name, count in counts.items() if _is_plain(name)} or dict(counts)
    parts = [f"{count}×{label_of(name)}" for name, count in _from_largest(plain)]
    if len(parts) <= _SHOWN_SIZES:
        return ", ".join(parts)
    return f"{', '.join(parts[: _SHOWN_SIZES - 1])} … {parts[-1]}"


def label_of(profile: str) -> str:
    """Return what follows the prefix of a profile's name, slices included: "40c", "1-5c"."""
    try:
        return profile.removeprefix(f"{VgpuProfile.parse(profile).prefix}-")
    except ValueError:
        return profile


def _from_largest(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    def key(pair: tuple[str, int]) -> tuple[int, int, str]:
        try:
            parsed = VgpuProfile.parse(pair[0])
        except ValueError:
            return (0, 0, pair[0])
        return (-(parsed.slices or 0), -parsed.framebuffer_gb, pair[0])

    return sorted(counts.items(), key=key)


def _is_plain(profile: str) -> bool:
    """Whether a profile differs from another only by its missing media engines or graphics."""
    try:
        return not VgpuProfile.parse(profile).suffix
    except ValueError:
        return True


def pci_text(board: Board) -> str:
    """List a board's PCI ids as `lspci -nn` does: "10de:20f1, 10de:25b6/14a9"."""
    words = []
    for pci in board.pci_ids:
        subsystem = f"/{pci.subsystem_id:04x}" if pci.subsystem_id is not None else ""
        words.append(f"{NVIDIA:04x}:{pci.device_id:04x}{subsystem}")
    return ", ".join(dict.fromkeys(words))
