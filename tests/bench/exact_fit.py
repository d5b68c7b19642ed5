"""Estates and VMs that fit exactly, with a known solution: hosts are filled, then the VMs are shuffled.

Every GPU is full, and every NIC that VMs of the host could use is given out, so that of many ways to place
the VMs few are left. The same seed makes the same instance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed, needs_of
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.capacity.nic_needs import NicKind, NicNeed
from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.placement.start_queues import Start, StartOrder, order_starts

GPUS_PER_HOST = 8
_MOST_POSITIONS = 1_000
FUNCTION = NicNeed(NicKind.SRIOV, near_gpu=True, must_be_near=True)
WHOLE = NicNeed(NicKind.PASSTHROUGH, near_gpu=True, must_be_near=True)
SWITCH = "nvidia_h100xm-80c"
MEMORY_SHARES = (0.95, 1.0)
"""The parts of what VMs may reserve of a host's memory that they do: nearly all, and all to the last GiB."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Hosts of one kind: their board, how often each profile is tried, and the NICs of each NUMA node."""

    board: str
    profiles: Mapping[str, int]
    gpu: Mapping[str, Any]
    nics: Sequence[Mapping[str, Any]] = ()
    need: NicNeed | None = None
    has_switch: bool = False


KINDS = (
    Kind(
        "A100D",
        {"grid_a100d-80c": 2, "grid_a100d-40c": 4, "grid_a100d-20c": 2, "grid_a100d-16c": 1},
        {},
        [{"functions": 4}],
        FUNCTION,
    ),
    Kind(
        "L40S",
        {"nvidia_l40s-48c": 2, "nvidia_l40s-24c": 4, "nvidia_l40s-12c": 2, "nvidia_l40s-8c": 1},
        {"mode": "mixed_size"},
    ),
    Kind(
        "H100XM",
        {
            "nvidia_h100xm-7-80c": 3,
            "nvidia_h100xm-4-40c": 4,
            "nvidia_h100xm-3-40c": 4,
            "nvidia_h100xm-2-20c": 2,
            "nvidia_h100xm-1-10c": 1,
        },
        {"sharing": "mig"},
    ),
    Kind("H100XM", {SWITCH: 1}, {}, has_switch=True),
    Kind(
        "A100",
        {"grid_a100-40c": 3, "grid_a100-20c": 4, "grid_a100-10c": 1},
        {},
        [{"passthrough": True}] * 2,
        WHOLE,
    ),
)
"""Same size with virtual functions, mixed sizes, MIG, NVSwitch, same size with whole NICs."""


@dataclass(frozen=True, slots=True)
class Instance:
    """Hosts with nothing on them, and VMs of which all have a place."""

    hosts: list[HostState]
    demands: list[Demand]


@dataclass(frozen=True, slots=True)
class _Content:
    """A VM that was put on a host, before its shape says which hosts it may go to."""

    variant: Variant
    nics: tuple[NicNeed, ...] = ()
    is_large: bool = False

    @property
    def memory_mib(self) -> int:
        """Memory by the share of a GPU; a large VM has twice as much."""
        share = sum(need.share for need in self.variant)
        return int(96 * 1024 * share) * (2 if self.is_large else 1)

    def shape(self, hosts: int) -> Shape:
        """Return what the VM needs of any of so many hosts."""
        cpus = max(2, int(14 * sum(need.share for need in self.variant)))
        ranked = tuple((index, 0) for index in range(hosts))
        return Shape(ranked, (self.variant,), cpus=cpus, memory_mib=self.memory_mib, nics=self.nics)


def make_instance(hosts: int, seed: int, memory_share: float = MEMORY_SHARES[0]) -> Instance:
    """Fill hosts of all kinds in turn so that all VMs start, and shuffle the VMs."""
    random = Random(seed)  # noqa: S311 - a benchmark that is the same every time
    states = list(_empty_hosts(hosts))
    contents = [
        one
        for index, state in enumerate(states)
        for one in _filled(state, _kind(index), memory_share, random)
    ]
    random.shuffle(contents)
    return Instance(
        states,
        [Demand(f"vm-{number:05d}", "", one.shape(hosts)) for number, one in enumerate(contents)],
    )


def _kind(index: int) -> Kind:
    return KINDS[index % len(KINDS)]


def _empty_hosts(count: int) -> Iterator[HostState]:
    rows = {}
    for number in range(count):
        kind = _kind(number)
        gpus = [
            {"board": kind.board, "pci": f"0000:{0x10 + place:02x}:00.0", "node": place // 4, **kind.gpu}
            for place in range(GPUS_PER_HOST)
        ]
        nics = [
            {"pci": f"0000:{0x90 + 16 * node + place:02x}:00.0", "node": node, **nic}
            for node in range(2)
            for place, nic in enumerate(kind.nics)
        ]
        groups = [f"Nvidia:{size}@{SWITCH}%NVLink" for size in (2, 4, 8)] if kind.has_switch else []
        rows[f"h{number:04d}"] = {
            "gpus": gpus,
            "nics": nics,
            "groups": groups,
            "node_gib": 600,
            "cores": 128,
        }
    observed = make_inventory({"hosts": rows})
    reader = CapacityReader(observed, load_catalog())
    for index, host in enumerate(observed.hosts):
        yield HostState.of(index, reader.read(host))


def _filled(host: HostState, kind: Kind, memory_share: float, random: Random) -> list[_Content]:
    """Fill a host until nothing more fits and all of it can be started for certain."""
    while True:
        trial = host.copy()
        found = list(_fill_switch(trial, random) if kind.has_switch else _fill(trial, kind, random))
        starts = [Start(str(number), one.variant) for number, one in enumerate(found)]
        orders = [one.order for one in order_starts(host, starts, most_positions=_MOST_POSITIONS)]
        if StartOrder.UNKNOWN not in orders:
            return _enlarged(found, int(host.free_mib * memory_share), random)


def _enlarged(contents: Sequence[_Content], free_mib: int, random: Random) -> list[_Content]:
    """Make VMs large, one after the other, until so much memory is used up."""
    found = list(contents)
    free_mib -= sum(one.memory_mib for one in found)
    for place in random.sample(range(len(found)), len(found)):
        if found[place].memory_mib <= free_mib:
            free_mib -= found[place].memory_mib
            found[place] = replace(found[place], is_large=True)
    return found


def _fill(host: HostState, kind: Kind, random: Random) -> Iterator[_Content]:
    """Put vGPUs on one GPU after the other; two of one size on a node may be one VM's."""
    by_node: dict[int | None, list[Variant]] = {}
    for gpu in host.gpus:
        while fitting := [one for one in map(_need, kind.profiles) if gpu.refuse(one) is None]:
            need = random.choices(fitting, [kind.profiles[one.name] for one in fitting])[0]
            gpu.take(need, "")
            by_node.setdefault(gpu.node, []).append((need,))
    for variants in map(list, by_node.values()):
        random.shuffle(variants)
        if kind.need is None:
            whole = [one for one in variants if one[0].max_per_gpu == 1]
            if len(whole) > 1 and not whole[0][0].is_mig:
                variants[:] = [one for one in variants if one not in whole]
                variants += [whole[0] + whole[1], *whole[2:]]
        ports = sum(nic.get("functions", 1) for nic in kind.nics)
        for place, variant in enumerate(variants):
            yield _Content(variant, (kind.need,) if kind.need is not None and place < ports else ())


def _fill_switch(host: HostState, random: Random) -> Iterator[_Content]:
    """Divide the GPUs of a baseboard into sets of peers and single ones."""
    need = _need(SWITCH)
    for half in (8,) if random.random() < 0.2 else (4, 4):
        sizes = [half] if half == 8 else random.choice([[4], [2, 2], [2, 1, 1], [1, 1, 1, 1]])
        for size in sizes:
            yield _Content((replace(need, peers=1),) * size if size > 1 else (need,))


def _need(profile: str) -> VgpuNeed:
    return next(iter(needs_of(profile, load_catalog()).values()))


def uncertain_hosts(found: Placed) -> int:
    """Count the hosts whose VMs start in no certain order."""
    by_host: dict[int, list[Start]] = {}
    for vm, fit in found.fits.items():
        if fit.variant:
            by_host.setdefault(fit.host, []).append(Start(vm, fit.variant))
    return sum(
        any(one.order is StartOrder.UNKNOWN for one in order_starts(found.initial[index], starts))
        for index, starts in by_host.items()
    )
