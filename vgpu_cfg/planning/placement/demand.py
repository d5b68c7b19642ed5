"""A VM's needs of a host, with similar VMs sharing one shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed
from vgpu_cfg.planning.capacity.nic_needs import NicNeed

Variant = tuple[VgpuNeed, ...]
"""One way to give a VM its vGPUs: a need for each, all of one board and series."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The needs of similar VMs. `hosts` are indexes of hosts with the rank of their cluster.

    `variants` are tried in order; with none there are no vGPUs. `line` is set only if VMs of one line depend
    on each other: apart, together (`pack`), at most `most_per_host` on a host, or on at most `max_hosts` (0:
    no limit). `nics` are the functions of NICs that it needs. `keep_free` of the
    hosts stay without any GPU VM. `unfit` are other hosts by name, each with its unsupported requirement.
    """

    hosts: tuple[tuple[int, int], ...]
    variants: tuple[Variant, ...] = ()
    fixed: tuple[str, ...] = ()
    dynamic: tuple[DeviceEntry, ...] = ()
    cpus: int = 0
    memory_mib: int = 0
    numa: NumaPolicy = NumaPolicy.FOLLOW_GPU
    numa_nodes: tuple[int, ...] = ()
    spread: Spread | None = None
    must: bool = True
    pack: bool = False
    keep_free: int = 0
    max_per_host: int = 0
    max_hosts: int = 0
    line: str = ""
    nics: tuple[NicNeed, ...] = ()
    unfit: tuple[tuple[str, str], ...] = ()

    def __hash__(self) -> int:
        """Leave out the hosts, which may be thousands: shapes that differ in nothing else are few."""
        return hash((self.variants, self.fixed, self.cpus, self.memory_mib, self.line, self.nics))

    @property
    def most_per_host(self) -> int:
        """The most VMs of the line on one host; 0 is no limit."""
        return 1 if self.spread is Spread.HOSTS and self.must else self.max_per_host

    @property
    def line_apart(self) -> str:
        """The line of which no GPU takes two VMs, "" if that does not matter."""
        return self.line if self.spread is Spread.GPUS and self.must else ""

    def needs(self, variant: int) -> Variant:
        """Return the vGPUs of one of its variants, by number."""
        return self.variants[variant] if self.variants else ()

    @property
    def has_gpus(self) -> bool:
        """Whether it asks for a GPU of any kind."""
        return bool(self.variants or self.fixed or self.dynamic)

    @property
    def hardness(self) -> tuple[float, ...]:
        """A key that sorts the hardest shapes to place first."""
        slices = max((need.mig_size for need in self.variants[0]), default=0) if self.variants else 0
        share = sum(need.share for need in self.variants[0]) if self.variants else 0.0
        is_bound = bool(self.fixed) or len(self.hosts) == 1
        return (
            -int(is_bound),
            -len(self.fixed),
            -len(self.dynamic),
            -len(self.nics),
            -len(self.variants[0]) if self.variants else 0,
            -max((need.share for need in self.variants[0]), default=0.0) if self.variants else 0.0,
            -slices,
            -share,
            len(self.hosts),
            -self.memory_mib,
            -self.cpus,
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """A VM that must get a place.

    `stays` is whether it exists on the one host of its shape, `starts` whether it is to run: then placement
    ensures that it starts for any GPUs that ESXi chooses for it and the others. VMs of one line `alike` get
    one variant, if that gives all of them a place.
    """

    vm: str
    line: str
    shape: Shape
    stays: bool = False
    starts: bool = False
    alike: str = ""


def counted_names(variant: Sequence[VgpuNeed]) -> str:
    """Spell vGPUs for a reader, as in 2 × grid_a100-40c."""
    counts: dict[str, int] = {}
    for need in variant:
        counts[need.name] = counts.get(need.name, 0) + 1
    return " and ".join(name if count == 1 else f"{count} × {name}" for name, count in counts.items())


def fixed_addresses(gpus: Sequence[GpuEntry]) -> tuple[str, ...]:
    """List the PCI addresses of fixed passthrough."""
    return tuple(gpu.pin for gpu in gpus if gpu.pin)


def dynamic_needs(gpus: Sequence[GpuEntry]) -> tuple[DeviceEntry, ...]:
    """List what Dynamic DirectPath devices must be."""
    return tuple(gpu.device for gpu in gpus if gpu.kind == "dynamic_passthrough")
