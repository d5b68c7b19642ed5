"""Each NVIDIA board's abilities as a source of vGPUs, read on demand from `profiles/<prefix>.yaml`.

    catalog = load_catalog()                        nothing is read yet
    (entry,) = catalog.by_profile("grid_a100-10c")  reads one file
    entry.max_per_gpu, entry.board.framebuffer_mib
    catalog.by_pci(0x10DE, 0x25B6, 0x14A9)          the A16; with 0x157E it is the A2

Data only: whether something fits is for planning to say, and a live host's own word goes before all of this.
"""

from __future__ import annotations

from vgpu_cfg.catalog.board import Alias, Architecture, Board, MigGeometry, MigProfile, PciId, ProfileEntry
from vgpu_cfg.catalog.lookup import NVIDIA, Catalog, load_catalog, resolve_profile

__all__ = [
    "NVIDIA",
    "Alias",
    "Architecture",
    "Board",
    "Catalog",
    "MigGeometry",
    "MigProfile",
    "PciId",
    "ProfileEntry",
    "load_catalog",
    "resolve_profile",
]
