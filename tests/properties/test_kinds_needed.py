"""Kinds of hosts that a plan does not ask are none that it depends on, on estates made at random."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.plans.estate import make_inventory
from tests.plans.planned import without_kinds
from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.kinds_needed import needs_kinds
from vgpu_cfg.planning.planner import make_plan

OPTIONS = PlanOptions(allow_power_cycle=True)
PROFILES = {
    "A100D": ["grid_a100d-80c", "grid_a100d-40c", "grid_a100d-20c", "grid_a100d-10c"],
    "H100XM": ["nvidia_h100xm-80c", "nvidia_h100xm-40c", "nvidia_h100xm-20c"],
    "L40S": ["nvidia_l40s-48c", "nvidia_l40s-24c", "nvidia_l40s-12c"],
}
GROUPS = {
    "A100D": ["Nvidia:2@grid_a100d-80c%NVLink"],
    "H100XM": [f"Nvidia:{size}@nvidia_h100xm-80c%NVLink" for size in (2, 4, 8)],
    "L40S": [],
}
ROOM = {"80c": 1, "48c": 1, "40c": 2, "24c": 2, "20c": 4, "12c": 4, "10c": 8}


@st.composite
def estates(draw: st.DrawFn) -> Inventory:
    """Make hosts of one board each, which NVLink may join, with VMs that run, fill their GPUs, or are off."""
    hosts: dict[str, Any] = {}
    vms: dict[str, Any] = {}
    for number in range(draw(st.integers(1, 2))):
        board = draw(st.sampled_from(sorted(PROFILES)))
        gpus = [
            {"board": board, "pci": f"0000:{16 + place:02x}:00.0", "node": place % 2}
            for place in range(draw(st.sampled_from([1, 2, 4, 8])))
        ]
        hosts[f"esx-{number}"] = {
            "gpus": gpus,
            "groups": draw(st.sampled_from([GROUPS[board], []])),
            "policy": draw(st.sampled_from(["performance", "consolidation"])),
            "node_gib": draw(st.sampled_from([32, 256])),
        }
        for gpu in gpus:
            profile = draw(st.sampled_from(PROFILES[board]))
            for _ in range(draw(st.integers(0, ROOM[profile.rpartition("-")[2]]))):
                row = {"host": f"esx-{number}", "gpus": [profile], "on": [gpu["pci"]], "memory_gib": 8}
                vms[f"vm-{len(vms)}"] = row | {"mark": draw(st.integers(0, 5)) == 0}
        for _ in range(draw(st.integers(0, 3))):
            row = {"host": f"esx-{number}", "gpus": [draw(st.sampled_from(PROFILES[board]))]}
            row |= {"power": "poweredOff", "mark": True, "memory_gib": draw(st.sampled_from([8, 48]))}
            vms[f"vm-{len(vms)}"] = row
    observed = make_inventory({"hosts": hosts, "vms": vms})
    lists_less = draw(st.booleans())
    creatable = {
        host.moid: tuple(
            one for one in host.creatable_profiles if not lists_less or draw(st.integers(0, 9)) > 0
        )
        for host in observed.hosts
    }
    update = [host.model_copy(update={"creatable_profiles": creatable[host.moid]}) for host in observed.hosts]
    return observed.model_copy(update={"hosts": tuple(update)})


@st.composite
def cases(draw: st.DrawFn) -> tuple[DesiredPlan, Inventory]:
    """Wish for the plan's VMs as they are, but for memory, CPUs, NUMA, power, and seldom their GPUs."""
    observed = draw(estates())
    wanted = []
    for one in observed.vms:
        if one.mark is None or one.detail is None:
            continue
        profiles = [device.profile for device in one.detail.vgpus]
        is_other = draw(st.integers(0, 19)) == 0
        more: dict[str, Any] = {
            "line": "vm-{0..99}",
            "cpus": draw(st.sampled_from([one.detail.cpus, 8])),
            "memory_mib": draw(st.sampled_from([one.detail.memory_mib, 16_384])),
            "power": draw(st.sampled_from(["on", "off"] if one.is_on else ["off", "off", "leave", "on"])),
            "numa": {"policy": draw(st.sampled_from(["follow-gpu", "off"]))},
            "stated": ["numa"],
        }
        wanted.append(vm(one.name, *(["grid_a100d-40c"] if is_other else profiles), **more))
    return plan_for(*wanted), observed


@settings(max_examples=examples(60, 600), deadline=None)
@given(cases())
def test_a_plan_that_asks_no_kinds_of_hosts_is_the_same(case: tuple[DesiredPlan, Inventory]) -> None:
    desired, observed = case
    less, catalog = without_kinds(observed), load_catalog()
    if not needs_kinds(desired, less, catalog, OPTIONS):
        assert make_plan(desired, less, catalog, OPTIONS) == make_plan(desired, observed, catalog, OPTIONS)
