"""The vGPU profiles that a host's driver knows at all, and those that it could create at this moment."""

from __future__ import annotations

from functools import lru_cache

from vgpu_cfg.catalog import ProfileEntry, load_catalog, resolve_profile
from vgpu_cfg.lab.rules.gpu_load import GpuLoad, Order, esxi_order, find_slot, load_of, min_esxi
from vgpu_cfg.lab.state.host import Gpu, Host
from vgpu_cfg.model.vgpu import Series, VgpuProfile

GRAPHICS_SIZES_GB = (1, 2, 3)
"""Sizes that the Q series has below the smallest C type."""


WITHOUT_SRIOV = ("Volta", "Turing")
"""Architectures whose vGPUs are no virtual functions."""


def drives(host: Host, gpu: Gpu) -> bool:
    """Whether the host's driver has a GPU: one that is older or newer than its board does not claim it."""
    return host.driver is not None and load_catalog().board(gpu.board).is_driven_by(host.driver.version)


def has_functions(host: Host, gpu: Gpu) -> bool:
    """Whether a GPU has the virtual functions that its vGPUs need.

    Belief: no-functions-none-creatable.
    """
    return host.bios.sriov or load_catalog().board(gpu.board).architecture in WITHOUT_SRIOV


def serves_vgpus(host: Host, gpu: Gpu) -> bool:
    """Whether a GPU takes vGPUs at all: driven, sharedDirect in force, not handed through whole."""
    return (
        drives(host, gpu) and gpu.graphics_type == "sharedDirect" and not host.is_passed_through(gpu.pci_id)
    )


def known_profiles(host: Host) -> tuple[ProfileEntry, ...]:
    """Return every profile that the host's driver has for its GPUs, whether creatable now or not."""
    if host.driver is None:
        return ()
    seen = (gpu for gpu in host.gpus if drives(host, gpu) and not host.is_passed_through(gpu.pci_id))
    boards = dict.fromkeys(gpu.board for gpu in seen)
    order = esxi_order(host)
    return tuple(entry for board in boards for entry in _board_profiles(board, host.driver.kind, order))


def creatable_profiles(host: Host) -> tuple[str, ...]:
    """Return what `sharedPassthruGpuTypes` shows: names that some GPU has room for now."""
    if host.driver is None:
        return ()
    gpus = (gpu for gpu in host.gpus if serves_vgpus(host, gpu) and has_functions(host, gpu))
    loads = dict.fromkeys(load_of(host, gpu) for gpu in gpus)
    names: dict[str, None] = {}
    for load in loads:
        names.update(dict.fromkeys(_creatable(load, host.driver.kind)))
    return tuple(names)


def knows(host: Host, profile: str) -> bool:
    """Whether a host has ever heard of a profile."""
    return any(entry.name == profile for entry in known_profiles(host))


@lru_cache(maxsize=4096)
def _creatable(load: GpuLoad, driver_kind: str) -> tuple[str, ...]:
    entries = _board_profiles(load.board, driver_kind, load.esxi)
    return tuple(entry.name for entry in entries if find_slot(load, entry.name) is not None)


@lru_cache(maxsize=512)
def _board_profiles(board_key: str, driver_kind: str, order: Order) -> tuple[ProfileEntry, ...]:
    """All of a board: C types of the catalogue, and Q, A and B of boards that drive displays.

    The driver of kind `vgpu` has no C types. Which boards have graphics types is derived from their
    memory: those with HBM are compute boards.
    """
    board = load_catalog().board(board_key)
    listed = [
        entry
        for entry in board.profiles
        if driver_kind == "nvd-aie" and (entry.mig is None or order >= min_esxi(entry))
    ]
    if not board.memory_type.startswith("GDDR"):
        return tuple(listed)
    sizes = [entry.profile.framebuffer_gb for entry in board.profiles if entry.mig is None]
    sizes += [
        size for size in reversed(GRAPHICS_SIZES_GB) if size not in sizes and board.framebuffer_gb % size == 0
    ]
    wanted: tuple[tuple[Series, list[int]], ...] = (("Q", sizes), ("A", sizes), ("B", [2, 1]))
    graphics = [
        resolve_profile(board, VgpuProfile(prefix=board.prefix, series=series, framebuffer_gb=size))
        for series, chosen in wanted
        for size in chosen
    ]
    return (*listed, *(entry for entry in graphics if entry is not None))
