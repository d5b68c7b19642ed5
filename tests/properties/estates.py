"""Estates and wishes made at random for placement, and a search through everything that knows no planner.

What a GPU takes is asked of the lab's own rules, which are written apart from the planner's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from vgpu_cfg import documents
from vgpu_cfg.lab.building.builder import build_state
from vgpu_cfg.lab.estates.estate import Estate
from vgpu_cfg.lab.estates.files import EstateFile
from vgpu_cfg.lab.rules.admission import reserved_mib
from vgpu_cfg.lab.rules.gpu_load import GpuLoad, find_slot, load_of
from vgpu_cfg.lab.rules.nvlink import joined_sets
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.vcenter import Lab

PROFILES: Mapping[str, Sequence[str]] = {
    "same": ["grid_a100d-80c", "grid_a100d-40c", "grid_a100d-20c", "grid_a100d-16c", "grid_a100d-10c"],
    "mixed": ["nvidia_l40s-48c", "nvidia_l40s-24c", "nvidia_l40s-16c", "nvidia_l40s-12c", "nvidia_l40s-8c"],
    "pairs": ["grid_a100d-80c", "grid_a100d-20c"],
    "switch": ["nvidia_h100xm-80c", "nvidia_h100xm-40c"],
    "mig": [
        "grid_a100-7-40c",
        "grid_a100-4-20c",
        "grid_a100-3-20c",
        "grid_a100-2-10c",
        "grid_a100-1-10c",
        "grid_a100-1-5c",
    ],
}
PEERS: Mapping[str, tuple[str, Sequence[int]]] = {
    "pairs": ("grid_a100d-80c", (2,)),
    "switch": ("nvidia_h100xm-80c", (2, 4, 8)),
}
"""The profile that NVLink peers have, and how many there can be."""
GPUS: Mapping[str, dict[str, Any]] = {
    "pairs": {"board": "A100D"},
    "switch": {"board": "H100XM", "nvswitch": True},
    "same": {"board": "A100D"},
    "mixed": {"board": "L40S", "mode": "mixed_size"},
    "mig": {"board": "A100", "mode": "mig"},
}


@dataclass(frozen=True)
class Wanted:
    """So many VMs of one line with these profiles; `apart` has them on different hosts.

    With `peers` their GPUs are joined by NVLink. With `gpu_gib` each asks for that much GPU memory instead,
    and `choices` are the ways to have it.
    """

    profiles: tuple[str, ...]
    count: int
    apart: bool = False
    memory_gib: int = 16
    peers: bool = False
    gpu_gib: int = 0
    choices: tuple[tuple[str, ...], ...] = ()


@st.composite
def estates(
    draw: st.DrawFn, *, most_hosts: int = 6, most_gpus: int = 8, kinds: Sequence[str] = tuple(sorted(GPUS))
) -> dict[str, Any]:
    """Make hosts of one kind of GPU each, with VMs that run on some of them.

    Hosts with as many GPUs of one board are joined alike by NVLink: what they offer is asked of one of them.
    """
    hosts = []
    vms = []
    for number in range(draw(st.integers(1, most_hosts))):
        kind = draw(st.sampled_from(kinds))
        sizes = {"pairs": [2, 4], "switch": [8], "same": [1, 1, 3]}.get(kind, [1, 1, 2, 2, 3, most_gpus])
        gpus = [_gpu(kind, place) for place in range(draw(st.sampled_from(sizes)))]
        name = f"esx-{number}.lab"
        hosts.append(
            {
                "name": name,
                "gpus": gpus,
                "memory": draw(st.sampled_from(["96GiB", "1TiB", "1TiB"])),
                "numa_nodes": 1,
                "cpu": {"sockets": 1},
                "assignment_policy": draw(st.sampled_from(["performance", "consolidation"])),
            }
        )
        for place, gpu in enumerate(gpus):
            if draw(st.integers(0, 3)) == 0:
                profile = draw(st.sampled_from(PROFILES[kind]))
                vms.append(
                    {
                        "name": f"other-{number}-{place}",
                        "host": name,
                        "memory": "4GiB",
                        "cpus": 1,
                        "extra_config": {
                            "pciPassthru.use64bitMMIO": "TRUE",
                            "pciPassthru.64bitMMIOSizeGB": "512",
                        },
                        "gpus": [{"profile": profile, "on": gpu["pci_id"]}],
                    }
                )
    return {
        "about": "made at random",
        "clusters": [{"name": "gpu", "hosts": hosts}],
        "folders": ["training"],
        "templates": [{"name": "ubuntu", "hardware_version": 21, "cpus": 2, "memory": "8GiB"}],
        "vms": vms,
    }


@st.composite
def cases(
    draw: st.DrawFn, *, most_hosts: int = 6, most_gpus: int = 8, most_vms: int = 14
) -> tuple[dict[str, Any], tuple[Wanted, ...]]:
    """Make an estate, and some lines of VMs for the kinds of GPUs that it has."""
    estate = draw(estates(most_hosts=most_hosts, most_gpus=most_gpus))
    boards = {gpu["board"] for host in estate["clusters"][0]["hosts"] for gpu in host["gpus"]}
    kinds = sorted(kind for kind, gpu in GPUS.items() if gpu["board"] in boards)
    wanted: list[Wanted] = []
    left = most_vms
    for _ in range(draw(st.integers(1, 4))):
        if left == 0:
            break
        kind = draw(st.sampled_from(kinds))
        profile = draw(st.sampled_from(PROFILES[kind]))
        several = draw(st.sampled_from([1, 1, 1, 2])) if kind != "mig" else 1
        is_peer = kind in PEERS and draw(st.booleans())
        if is_peer:
            profile, possible = PEERS[kind]
            several = draw(st.sampled_from(possible))
        count = draw(st.integers(1, left))
        left -= count
        apart = draw(st.integers(0, 4)) == 0
        wanted.append(Wanted((profile,) * several, count, apart, draw(st.sampled_from([8, 8, 24])), is_peer))
    return estate, tuple(wanted)


def _gpu(kind: str, place: int) -> dict[str, Any]:
    row = GPUS[kind] | {"pci_id": _address(place)}
    return row | {"nvlink": [_address(place ^ 1)]} if kind == "pairs" else row


def _address(place: int) -> str:
    return f"0000:{0x20 + place:02x}:00.0"


def _gpu_rows(line: Wanted) -> list[dict[str, Any]]:
    if line.gpu_gib:
        return [{"memory": f"{line.gpu_gib}GiB", "count": len(line.choices[0])}]
    if line.peers:
        return [{"profile": line.profiles[0], "count": len(line.profiles), "nvlink": True}]
    return [{"profile": profile} for profile in line.profiles]


def open_estate(estate: dict[str, Any], **options: Any) -> Lab:
    """Open a lab of such an estate, in memory and on a virtual clock."""
    text = json.dumps(estate)
    document = documents.parse_text(text, "estate.yaml")
    source = EstateFile("random", document, Estate.model_validate(estate), "random")
    return Lab(build_state(source), clock=VirtualClock(), **options)


def plan_rows(wanted: Sequence[Wanted]) -> dict[str, Any]:
    """Write the plan that asks for these VMs."""
    rows = []
    for number, line in enumerate(wanted):
        row: dict[str, Any] = {
            "name": f"l{number}-{{01..{line.count:02d}}}",
            "template": "ubuntu",
            "cluster": "gpu",
            "folder": "training",
            "cpus": 2,
            "memory": f"{line.memory_gib}GiB",
            "gpus": _gpu_rows(line),
            "numa": "off",
        }
        if line.apart:
            row["place"] = {"spread": "hosts"}
        rows.append(row)
    checks = {"VG123": "warning"}  # several vGPUs in a VM on a server of many GPUs
    return {"version": 1, "name": "demo", "vcenter": "lab", "checks": checks, "vms": rows}


def is_feasible(lab: Lab, wanted: Sequence[Wanted]) -> bool:
    """Whether all VMs can run at once where GPUs are chosen as is best for them: a search through everything.

    For each host it collects how many VMs of each line it can run together, and then adds hosts up.
    """
    goal = tuple(line.count for line in wanted)
    reached = {(0,) * len(wanted)}
    for host in lab.state.all(Host):
        own = together(lab, host, wanted)
        totals = (tuple(map(sum, zip(before, more, strict=True))) for before in reached for more in own)
        reached = {
            total for total in totals if all(one <= most for one, most in zip(total, goal, strict=True))
        }
    return goal in reached


def together(lab: Lab, host: Host, wanted: Sequence[Wanted]) -> set[tuple[int, ...]]:
    """Collect the numbers of VMs by line that a host can run at once, whatever order they start in."""
    room_mib = int(host.memory_mib * 0.95) - reserved_mib(lab.state, host)
    gpus = sorted(host.gpus, key=lambda gpu: gpu.pci_id)
    sets = [tuple(gpus.index(gpu) for gpu in one) for one in joined_sets(gpus)]
    is_joined = bool(sets) and any(line.peers for line in wanted)
    first = (_tidy((load_of(host, gpu) for gpu in gpus), is_joined), (0,) * len(wanted))
    seen = {first}
    queue = [first]
    while queue:
        loads, counts = queue.pop()
        for number, line in enumerate(wanted):
            more = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
            used = sum(count * one.memory_gib * 1024 for count, one in zip(more, wanted, strict=True))
            if more[number] > (1 if line.apart else line.count) or used > room_mib:
                continue
            if line.peers:
                after = set(_joined(loads, line.profiles, sets))
            else:
                after = set()
                for profiles in line.choices or (line.profiles,):
                    ends = {loads}
                    for profile in profiles:
                        ends = {next_ for one in ends for next_ in _after(one, profile, is_joined)}
                    after |= ends
            for one in after:
                if (one, more) not in seen:
                    seen.add((one, more))
                    queue.append((one, more))
    return {counts for _, counts in seen}


def _joined(
    loads: tuple[GpuLoad, ...], profiles: tuple[str, ...], sets: Sequence[tuple[int, ...]]
) -> Iterator[tuple[GpuLoad, ...]]:
    """Yield what GPUs are after a device group took each of the sets of its size that are idle."""
    for members in sets:
        takes = all(find_slot(loads[index], profiles[0]) is not None for index in members)
        is_idle = not any(loads[index].uses for index in members)
        if len(members) == len(profiles) and takes and is_idle:
            yield tuple(
                _with(load, profiles[0], None) if index in members else load
                for index, load in enumerate(loads)
            )


def _after(loads: tuple[GpuLoad, ...], profile: str, is_joined: bool) -> Iterator[tuple[GpuLoad, ...]]:
    for index, load in enumerate(loads):
        slot = find_slot(load, profile)
        if slot is not None and (is_joined or load not in loads[:index]):
            after = _with(load, profile, slot.start)
            yield _tidy((*loads[:index], after, *loads[index + 1 :]), is_joined)


def _with(load: GpuLoad, profile: str, start: int | None) -> GpuLoad:
    uses = tuple(sorted((*load.uses, (profile, start)), key=repr))
    return GpuLoad(load.board, load.mig, load.mixed, load.esxi, uses)


def _tidy(loads: Iterable[GpuLoad], is_joined: bool) -> tuple[GpuLoad, ...]:
    """Forget which GPU is which, where NVLink does not tell them apart."""
    return tuple(loads) if is_joined else tuple(sorted(loads, key=repr))
