"""The load of a physical GPU: its room for one more vGPU, the place there, and the profiles it can create.

It depends on the same-size lock, the maximum per GPU, mixed-size placement ids, and MIG slices. Answers are
remembered per load, since a fleet has few different ones. How a real host chooses a GPU is unproven: the lab
has three ways.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from vgpu_cfg.catalog import Board, ProfileEntry, load_catalog, resolve_profile
from vgpu_cfg.lab.estates.stock import BY_VERSION
from vgpu_cfg.lab.rules.nvlink import GpuSet
from vgpu_cfg.lab.state.host import AssignmentPolicy, Gpu, Host
from vgpu_cfg.model.vgpu import Series, Sharing, VgpuProfile

Order = tuple[int, ...]

ESXI_7_0_2: Order = (7, 0, 2)
ESXI_8_0: Order = (8, 0, 0)
ESXI_8_0_2: Order = (8, 0, 2)
ESXI_8_0_3: Order = (8, 0, 3)

GpuChoice = Literal["least_loaded", "lowest", "random"]


@dataclass(frozen=True, slots=True)
class GpuLoad:
    """All that counts of a GPU: board, mode, the host's release, and (profile, start) of what runs."""

    board: str
    mig: bool
    mixed: bool
    esxi: Order
    uses: tuple[tuple[str, int | None], ...] = ()
    starts: Literal["high", "low", "in turns"] = "high"


@dataclass(frozen=True, slots=True)
class Slot:
    """Room for a vGPU; `start` as in `VgpuUse`."""

    start: int | None = None


def esxi_order(host: Host) -> Order:
    """Return a host's release as numbers to compare."""
    return BY_VERSION[host.version].order


def load_of(host: Host, gpu: Gpu) -> GpuLoad:
    """Return the relevant state of a GPU."""
    return GpuLoad(
        gpu.board,
        gpu.mig_enabled,
        gpu.vgpu_mode == "mixedSize",
        esxi_order(host),
        tuple((use.profile, use.start) for use in gpu.uses),
        host.mig_starts,
    )


@lru_cache(maxsize=65536)
def find_slot(load: GpuLoad, profile: str) -> Slot | None:
    """Return where a vGPU would lie on a GPU of this load, None where it has no room."""
    entry = entry_of(load.board, profile)
    if entry is None or not is_offered(load, entry):
        return None
    if load.mig:
        return _mig_slot(load, entry)
    return _mixed_slot(load, entry) if load.mixed else _same_size_slot(load, entry)


@lru_cache(maxsize=8192)
def entry_of(board: str, profile: str) -> ProfileEntry | None:
    """Return a profile's values on a board, None if the board does not have it."""
    return resolve_profile(load_catalog().board(board), VgpuProfile.parse(profile))


def is_offered(load: GpuLoad, entry: ProfileEntry) -> bool:
    """Whether a GPU in this mode, on this release, ever creates the profile."""
    if (entry.profile.sharing is Sharing.MIG) != load.mig:
        return False
    return not load.mig or load.esxi >= min_esxi(entry)


def min_esxi(entry: ProfileEntry) -> Order:
    """Return the first release that offers a MIG-backed profile."""
    if entry.mig is not None and entry.mig.min_esxi:
        return tuple(int(part) for part in entry.mig.min_esxi.split("."))
    return ESXI_7_0_2


def _same_size_slot(load: GpuLoad, entry: ProfileEntry) -> Slot | None:
    """All of one framebuffer size; before 8.0 U2 also of one series."""
    for name, _ in load.uses:
        other = entry_of(load.board, name)
        if other is None or other.framebuffer_mib != entry.framebuffer_mib:
            return None
        if load.esxi < ESXI_8_0_2 and other.profile.series != entry.profile.series:
            return None
    return Slot() if len(load.uses) < entry.max_per_gpu else None


def _mixed_slot(load: GpuLoad, entry: ProfileEntry) -> Slot | None:
    """Any sizes, each at a placement id of its own; where ids are unpublished, the sum decides."""
    board = entry.board
    if entry.max_mixed is None or load.esxi < ESXI_8_0_3:
        return None
    same = sum(_size(board, name) == entry.profile.framebuffer_gb for name, _ in load.uses)
    if same >= entry.max_mixed:
        return None
    if entry.mixed_starts is None:
        used = sum(_size(board, name) for name, _ in load.uses)
        return Slot() if used + entry.profile.framebuffer_gb <= board.framebuffer_gb else None
    taken = [(start, start + _size(board, name)) for name, start in load.uses if start is not None]
    return _first_free(entry.mixed_starts, entry.profile.framebuffer_gb, taken)


def _size(board: Board, profile: str) -> int:
    entry = entry_of(board.key, profile)
    return entry.profile.framebuffer_gb if entry is not None else board.framebuffer_gb


def _mig_slot(load: GpuLoad, entry: ProfileEntry) -> Slot | None:
    """Return a GPU instance of the profile's shape, at a legal start, the high ones first.

    The first 3g goes to slice 4, so that 0 to 4 stays free for a 4g (seen on vSphere);
    for the smaller ones the same order is derived from that.
    """
    shape = entry.mig
    geometry = entry.board.mig
    if shape is None or geometry is None:
        return None
    instances: dict[int, list[ProfileEntry]] = {}
    for name, start in load.uses:
        other = entry_of(load.board, name)
        if other is not None and start is not None:
            instances.setdefault(start, []).append(other)
    running = [entries[0] for entries in instances.values()]
    if (
        sum(other.name == entry.name for others in instances.values() for other in others)
        >= entry.max_per_gpu
    ):
        return None
    for start, others in sorted(instances.items(), reverse=True):
        if others[0].name == entry.name and len(others) < shape.per_instance:
            return Slot(start)
    if shape.has_media_engines and any(
        other.mig is not None and other.mig.has_media_engines for other in running
    ):
        return None
    used = sum(other.mig_compute or 0 for other in running)
    if used + shape.compute > geometry.compute_slices:
        return None
    taken = [(start, start + (others[0].mig_size or 0)) for start, others in instances.items()]
    is_high = load.starts == "high" or (load.starts == "in turns" and len(load.uses) % 2 == 0)
    return _first_free(sorted(shape.starts, reverse=is_high), shape.size, taken)


def _first_free(starts: list[int] | tuple[int, ...], size: int, taken: list[tuple[int, int]]) -> Slot | None:
    for start in starts:
        if all(start + size <= begin or end <= start for begin, end in taken):
            return Slot(start)
    return None


@dataclass(frozen=True, slots=True)
class Pick:
    """One way of choosing.

    `gpu` takes GPUs with room, in the order of their addresses, never none. `joined` takes the free sets
    of the size wanted, in the order of module ids or addresses, never none, and all free sets.
    """

    gpu: Callable[[Sequence[Gpu], AssignmentPolicy], Gpu]
    joined: Callable[[Sequence[GpuSet], Sequence[GpuSet]], GpuSet]


def _least_loaded(gpus: Sequence[Gpu], policy: AssignmentPolicy) -> Gpu:
    """Follow the host's policy: the emptiest GPU under performance, the fullest under consolidation.

    A GPU in MIG mode ignores the policy: one is filled before the next (seen on vSphere).
    """
    return _by_policy(gpus, "consolidation" if gpus[0].mig_enabled else policy)


def _packed(sets: Sequence[GpuSet], free: Sequence[GpuSet]) -> GpuSet:
    """Take the set that breaks the fewest larger ones: a pair of a half that is broken already.

    That the platform packs pairs into one half to keep a four is VMware's word.
    """
    return min(sets, key=lambda gpus: sum(len(other) > len(gpus) and _meet(gpus, other) for other in free))


def _meet(one: GpuSet, other: GpuSet) -> bool:
    return any(gpu is each for gpu in one for each in other)


def _by_policy(gpus: Sequence[Gpu], policy: AssignmentPolicy) -> Gpu:
    """Follow the host's policy, whatever the GPUs' mode."""
    return min(gpus, key=lambda gpu: -len(gpu.uses) if policy == "consolidation" else len(gpu.uses))


PICK_LEAST_LOADED = Pick(_least_loaded, _packed)
PICK_BY_POLICY = Pick(_by_policy, _packed)


def picker(choice: GpuChoice, source: random.Random) -> Pick:
    """Return the way of choosing that a lab is set to."""
    match choice:
        case "least_loaded":
            return PICK_LEAST_LOADED
        case "lowest":
            return Pick(lambda gpus, _policy: gpus[0], lambda sets, _free: sets[0])
        case "random":
            return Pick(
                lambda gpus, _policy: source.choice(list(gpus)), lambda sets, _free: source.choice(list(sets))
            )


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
