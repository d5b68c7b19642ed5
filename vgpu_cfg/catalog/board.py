"""The known facts of one board: its ids, memory, MIG geometry and documented profiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, TypeAlias

from vgpu_cfg.model.vgpu import VgpuProfile

Architecture: TypeAlias = Literal["Volta", "Turing", "Ampere", "Ada", "Hopper", "Blackwell"]
_RATES: Mapping[Architecture, str] = MappingProxyType(
    {"Volta": "8.0", "Turing": "8.0", "Ampere": "16.0", "Ada": "16.0", "Hopper": "32.0", "Blackwell": "32.0"}
)
"""GT/s of a PCIe lane: generations 3 to 5."""
_OTHER_LINKS: Mapping[str, tuple[str, int] | None] = MappingProxyType(
    {"A2": ("16.0", 8), **dict.fromkeys(("B300X", "GB200", "GB300", "GH200", "GH200L"))}
)
"""Boards, by key, whose link differs from that of their architecture, or is not known."""


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
    """The possible places of a MIG-backed profile on a GPU, in memory slices.

    `instance` is the GPU instance as nvidia-smi names it, `profile_id` its number there. `per_instance` vGPUs
    share one instance by turns (1 almost everywhere).
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

    `listed` distinguishes the documented C types from those that follow by rule: the A, B and Q types of
    other people's desktops. `is_max_known` is false if the maximum of such a type is not published:
    `max_per_gpu` is then the framebuffer's limit. `max_mixed` is the maximum in mixed-size mode (None: not
    allowed, or not published), `mixed_starts` the GB at which it may start there (None: not published).
    `is_full_framebuffer` is for time-sliced types.
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
    is_max_known: bool = True

    @property
    def name(self) -> str:
        return self.profile.name

    @property
    def loses_p2p_by_uvm(self) -> bool:
        """Whether unified memory keeps several of them in a VM from being NVLink peers."""
        return self.board.architecture == "Ampere" and self.is_nvlink_p2p

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

    All numbers are per GPU. `mmio_gb` is the 64-bit MMIO space that a VM needs for one GPU (None: no large
    BAR, so none is needed). `mixed_placement` maps a size in GB to the GB at which a vGPU of that size may
    start (None: not published). `nvlink_groups` are how many GPUs can be peers of each other (empty: not
    published). `unproven` gives, by the file's key, derived and recalled values, and their basis.
    """

    key: str
    prefix: str
    pci_ids: tuple[PciId, ...]
    aliases: tuple[Alias, ...]
    framebuffer_mib: int
    memory_type: str
    architecture: Architecture
    driver_since: str
    driver_until: str
    """The first and the last branch of NVIDIA's driver that has the board, "" without a known limit."""
    gpus_per_board: int
    mmio_gb: int | None
    nvlink_p2p_profile: VgpuProfile | None
    is_nvswitch: bool
    nvlink_groups: tuple[int, ...]
    is_esxi: bool
    mig: MigGeometry | None
    mixed_placement: Mapping[int, tuple[int, ...]] | None
    other_series: Mapping[str, int]
    """How many of an A, B or Q type one GPU takes, by what follows the prefix: `2q`, `1-24q`."""
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

    def is_driven_by(self, version: str) -> bool:
        """Whether a driver of this version has the board; an unknown version or limit does not exclude it.

        Belief: boards-by-their-drivers-names.
        """
        branch = version.partition(".")[0]
        is_new = not self.driver_since or int(branch or 0) >= int(self.driver_since)
        is_old = not self.driver_until or int(branch or 0) <= int(self.driver_until)
        return not branch.isdecimal() or (is_new and is_old)

    @property
    def link(self) -> tuple[str, int] | None:
        """The PCIe link of a GPU, as GT/s of a lane and the number of lanes; None if it is not known.

        Belief: boards-have-the-link-of-their-architecture.
        """
        if self.gpus_per_board > 1 or self.key in _OTHER_LINKS:
            return _OTHER_LINKS.get(self.key)
        return _RATES[self.architecture], 16

    @property
    def drivers_text(self) -> str:
        """Name the driver branches that have the board, "" without a known limit."""
        since = f"{self.driver_since} or later" if self.driver_since else ""
        return since or (f"{self.driver_until} or earlier" if self.driver_until else "")

    @property
    def prefixes(self) -> tuple[str, ...]:
        """The board's own prefix and those of its aliases."""
        return (self.prefix, *(prefix for alias in self.aliases for prefix in alias.prefixes))

    @property
    def framebuffer_gb(self) -> int:
        """The framebuffer as profile names print it; also the size of the mixed-size placement region."""
        sizes = [entry.profile.framebuffer_gb for entry in self.profiles if entry.mig is None]
        return max(sizes, default=self.framebuffer_mib // 1024)

    @property
    def supports_mixed_size(self) -> bool:
        """Whether mixed-size mode is documented for any profile."""
        return any(entry.max_mixed is not None for entry in self.profiles)

    @property
    def source(self) -> str:
        return "; ".join(dict.fromkeys(self.sources.values()))
