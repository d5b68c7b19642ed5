"""Prevent the nouveau driver from loading, so that NVIDIA's own finds the GPU free (NVAIE5 3.4)."""

from __future__ import annotations

from vgpu_cfg.staging.rendering import Staged, halves, source_file

_BLACKLIST = "blacklist nouveau\noptions nouveau modeset=0\n"


def stage_nouveau() -> Staged:
    """Write the blacklist and the initramfs; a restart is due only where nouveau runs and does not let go."""
    return halves("nouveau.sh.j2", source_file("blacklist-nouveau.conf", _BLACKLIST))
