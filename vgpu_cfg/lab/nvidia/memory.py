"""How much of a GPU's framebuffer its vGPUs hold."""

from __future__ import annotations

from vgpu_cfg.lab.rules.gpu_load import entry_of
from vgpu_cfg.lab.state.host import Gpu


def used_mib(gpu: Gpu) -> int:
    """Return the sum of what runs on a GPU."""
    entries = (entry_of(gpu.board, use.profile) for use in gpu.uses)
    return sum(entry.framebuffer_mib for entry in entries if entry is not None)
