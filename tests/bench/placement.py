"""How long it takes to place VMs on a fleet of eight-GPU hosts: the greedy way, and the solver's."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.capacity.gpu_state import needs_of
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Placer, place_greedily
from vgpu_cfg.planning.placement.solver import place_by_program

GPUS_PER_HOST = 8
KINDS: Sequence[tuple[str, Mapping[str, Any], Mapping[str, int]]] = (
    ("A100D", {}, {"grid_a100d-80c": 6, "grid_a100d-40c": 10, "grid_a100d-20c": 20, "grid_a100d-10c": 25}),
    ("L40S", {"mode": "mixed_size"}, {"nvidia_l40s-24c": 8, "nvidia_l40s-12c": 12, "nvidia_l40s-8c": 12}),
    (
        "H100XM",
        {"sharing": "mig"},
        {
            "nvidia_h100xm-4-40c": 8,
            "nvidia_h100xm-3-40c": 10,
            "nvidia_h100xm-2-20c": 12,
            "nvidia_h100xm-1-10c": 20,
        },
    ),
)
"""Boards in turn over the hosts, how they are set, and how often each profile is asked for."""


def fleet(hosts: int) -> list[HostState]:
    """Make hosts of the three kinds in turn, with nothing on them."""
    rows = {}
    for number in range(hosts):
        board, more, _ = KINDS[number % len(KINDS)]
        gpus = [
            {"board": board, "pci": f"0000:{0x10 + place:02x}:00.0", "node": place // 4, **more}
            for place in range(GPUS_PER_HOST)
        ]
        rows[f"h{number:04d}"] = {"gpus": gpus, "node_gib": 2048, "cores": 128}
    observed = make_inventory({"hosts": rows})
    reader = CapacityReader(observed, load_catalog())
    return [HostState.of(index, reader.read(host)) for index, host in enumerate(observed.hosts)]


def desired_settings(vms: int, hosts: int) -> list[Demand]:
    """Ask for VMs of eleven shapes, any host being as good as another."""
    chances = {profile: weight for _, _, profiles in KINDS for profile, weight in profiles.items()}
    random = Random(1)  # noqa: S311 - a benchmark that is the same every time
    profiles = random.choices(list(chances), list(chances.values()), k=vms)
    ranked = tuple((index, 0) for index in range(hosts))
    shapes = {
        profile: Shape(
            ranked, ((next(iter(needs_of(profile, load_catalog()).values())),),), cpus=4, memory_mib=16_384
        )
        for profile in chances
    }
    return [Demand(f"vm-{number:05d}", "", shapes[profile]) for number, profile in enumerate(profiles)]


def print_placement(sizes: Sequence[tuple[int, int]]) -> None:
    """Print a table: hosts, VMs, and per way the seconds and how many VMs got no place."""
    print(f"\n{'placing':24}{'hosts':>7}{'VMs':>8}{'without':>10}{'seconds':>10}")
    placers: Mapping[str, Placer] = {"greedy": place_greedily, "solver": place_by_program}
    for hosts, vms in sizes:
        states, demands = fleet(hosts), desired_settings(vms, hosts)
        for name, placer in placers.items():
            begun = time.perf_counter()
            found = placer(states, demands)
            seconds = time.perf_counter() - begun
            print(f"{name:24}{hosts:>7,}{vms:>8,}{len(found.left):>10,}{seconds:>10.2f}")
