"""How long planning takes where hosts are prepared for the VMs, and how much of it is disturbed for them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan

GPUS_PER_HOST = 8
MIG_PER_GPU = 2
KINDS = ("nothing to prepare", "some hosts to prepare", "all hosts to prepare", "more VMs than room")


def estate(hosts: int, in_mig_mode: int) -> Inventory:
    """Make hosts of eight A100, the last ones in MIG mode already."""
    rows = {}
    for number in range(hosts):
        sharing = {"sharing": "mig"} if number >= hosts - in_mig_mode else {}
        gpus = [
            {"board": "A100", "pci": f"0000:{0x10 + place:02x}:00.0", "node": place // 4, **sharing}
            for place in range(GPUS_PER_HOST)
        ]
        rows[f"h{number:04d}"] = {"gpus": gpus, "node_gib": 2048, "cores": 128}
    return make_inventory({"hosts": rows, "clusters": {"gpu": {"drs": "fullyAutomated"}}})


def desired_settings(vms: int) -> DesiredPlan:
    """Ask for VMs with a MIG-backed half of an A100 each."""
    row = {
        "line": "vm",
        "source": {"kind": "template", "path_or_name": "ubuntu"},
        "clusters": ("gpu",),
        "cpus": 4,
        "memory_mib": 16_384,
        "gpus": ({"profile": ("grid_a100-3-20c",)},),
    }
    entry = {"cluster": "gpu", "prepare": "from_vms", "access": {"ssh": "open-and-close"}}
    rows = tuple(row | {"name": f"vm-{number:05d}"} for number in range(vms))
    return DesiredPlan.model_validate({"name": "bench", "vcenter": "vc", "vms": rows, "hosts": (entry,)})


def print_preparing(sizes: Sequence[tuple[int, int]]) -> None:
    """Print a table: hosts, VMs, and for each kind of estate the hosts prepared, the VMs left and seconds."""
    print(f"\n{'preparing for VMs':24}{'hosts':>7}{'VMs':>8}{'prepared':>10}{'without':>10}{'seconds':>10}")
    for hosts, vms in sizes:
        room = hosts * GPUS_PER_HOST * MIG_PER_GPU
        rows = [(vms, hosts), (vms, hosts // 6), (vms, 0), (room + room // 16, 0)]
        for kind, (count, in_mig_mode) in zip(KINDS, rows, strict=True):
            desired, observed = desired_settings(count), estate(hosts, in_mig_mode)
            begun = time.process_time()
            plan = make_plan(desired, observed, load_catalog(), PlanOptions())
            seconds = time.process_time() - begun
            prepared = sum(change.kind == "enter_maintenance" for change in plan.changes)
            left = count - len(plan.placements)
            print(f"{kind:24}{hosts:>7,}{count:>8,}{prepared:>10,}{left:>10,}{seconds:>10.2f}")
