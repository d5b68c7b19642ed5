"""Estates and wishes made at random for placement, and a search through everything that knows no planner.

What a GPU takes is asked of the lab's own rules, which are written apart from the planner's.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from vgpu_cfg import documents
from vgpu_cfg.lab.builder import build_state
from vgpu_cfg.lab.clock import VirtualClock
from vgpu_cfg.lab.estate import Estate
from vgpu_cfg.lab.estate_files import EstateFile
from vgpu_cfg.lab.host_state import Host
from vgpu_cfg.lab.rules.admission import reserved_mib
from vgpu_cfg.lab.rules.gpu_load import GpuLoad, find_slot, load_of
from vgpu_cfg.lab.vcenter import Lab

PROFILES: Mapping[str, Sequence[str]] = {
    "same": ["grid_a100d-80c", "grid_a100d-40c", "grid_a100d-20c", "grid_a100d-16c", "grid_a100d-10c"],
    "mixed": ["nvidia_l40s-48c", "nvidia_l40s-24c", "nvidia_l40s-16c", "nvidia_l40s-12c", "nvidia_l40s-8c"],
    "mig": [
        "grid_a100-7-40c",
        "grid_a100-4-20c",
        "grid_a100-3-20c",
        "grid_a100-2-10c",
        "grid_a100-1-10c",
        "grid_a100-1-5c",
    ],
}
GPUS: Mapping[str, dict[str, Any]] = {
    "same": {"board": "A100D"},
    "mixed": {"board": "L40S", "mode": "mixed_size"},
    "mig": {"board": "A100", "mode": "mig"},
}


@dataclass(frozen=True)
class Wanted:
    """So many VMs of one line with these profiles; `apart` has them on different hosts."""

    profiles: tuple[str, ...]
    count: int
    apart: bool = False
    memory_gib: int = 16


@st.composite
def estates(draw: st.DrawFn, *, most_hosts: int = 6, most_gpus: int = 8) -> dict[str, Any]:
    """Make hosts of one kind of GPU each, with VMs that run on some of them."""
    hosts = []
    vms = []
    for number in range(draw(st.integers(1, most_hosts))):
        kind = draw(st.sampled_from(sorted(GPUS)))
        gpus = [
            GPUS[kind] | {"pci_id": f"0000:{0x20 + place:02x}:00.0"}
            for place in range(draw(st.sampled_from([1, 1, 2, 2, 3, most_gpus])))
        ]
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
        count = draw(st.integers(1, left))
        left -= count
        apart = draw(st.integers(0, 4)) == 0
        wanted.append(Wanted((profile,) * several, count, apart, draw(st.sampled_from([8, 8, 24]))))
    return estate, tuple(wanted)


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
            "gpus": [{"profile": profile} for profile in line.profiles],
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
        own = _together(lab, host, wanted)
        totals = (tuple(map(sum, zip(before, more, strict=True))) for before in reached for more in own)
        reached = {
            total for total in totals if all(one <= most for one, most in zip(total, goal, strict=True))
        }
    return goal in reached


def _together(lab: Lab, host: Host, wanted: Sequence[Wanted]) -> set[tuple[int, ...]]:
    """Collect the numbers of VMs by line that a host can run at once, whatever order they start in."""
    room_mib = int(host.memory_mib * 0.95) - reserved_mib(lab.state, host)
    first = (_sorted(load_of(host, gpu) for gpu in host.gpus), (0,) * len(wanted))
    seen = {first}
    queue = [first]
    while queue:
        loads, counts = queue.pop()
        for number, line in enumerate(wanted):
            more = (*counts[:number], counts[number] + 1, *counts[number + 1 :])
            used = sum(count * one.memory_gib * 1024 for count, one in zip(more, wanted, strict=True))
            if more[number] > (1 if line.apart else line.count) or used > room_mib:
                continue
            after = {loads}
            for profile in line.profiles:
                after = {next_ for one in after for next_ in _after(one, profile)}
            for one in after:
                if (one, more) not in seen:
                    seen.add((one, more))
                    queue.append((one, more))
    return {counts for _, counts in seen}


def _after(loads: tuple[GpuLoad, ...], profile: str) -> Iterator[tuple[GpuLoad, ...]]:
    for load in dict.fromkeys(loads):
        slot = find_slot(load, profile)
        if slot is not None:
            index = loads.index(load)
            uses = tuple(sorted((*load.uses, (profile, slot.start)), key=repr))
            after = GpuLoad(load.board, load.mig, load.mixed, load.esxi, uses)
            yield _sorted((*loads[:index], after, *loads[index + 1 :]))


def _sorted(loads: Any) -> tuple[GpuLoad, ...]:
    return tuple(sorted(loads, key=repr))
