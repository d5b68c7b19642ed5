"""GPU memory access of a NIC: by dma-buf, or by nvidia-peermem, which an earlier driver may lack.

Belief: dma-buf-needs-linux-512, run-installer-k.
"""

from __future__ import annotations

from vgpu_cfg.model.guests.modules import PeermemModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.rendering import Staged, halves, source_file


def stage_peermem(module: PeermemModule) -> Staged:
    """Load nvidia-peermem now and at every boot where dma-buf does not do, built anew if it must be."""
    return halves(
        "peermem.sh.j2",
        source_file("peermem.conf", "nvidia-peermem\n"),
        stack=module.stack,
        package=values.package(module.package) if module.package else "",
        sha256=values.sha256(module.sha256),
    )
