"""Who leaves a host: moved, switched off, or in the way; and how many hosts may be down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desires import codes, planned, vm
from tests.unit.planning.hosts.asked import GPU, case, estate, host, kinds, plan, wanted
from vgpu_cfg.model.inventory import Inventory
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.hosts.evacuate import hosts_down, plan_evacuation, plan_graphics_pause
from vgpu_cfg.planning.options import PlanOptions

PCI = GPU["pci"]
PLAIN = {"host": "esx-01", "memory_gib": 64}
OTHERS_VGPU = PLAIN | {"gpus": ["grid_a100-20c"], "on": [PCI]}
OTHERS_DEVICE = PLAIN | {"passthrough": [{"pci": PCI}]}
OWN = OTHERS_VGPU | {"mark": True}
MOVES = {
    "clusters": {"gpu": {"drs": "fullyAutomated", "drs_options": {"VgpuMMAutomationTimeoutSecs": "-1"}}},
    "vcenter_options": {"vgpu.hotmigrate.enabled": "true"},
}


def two(vms: dict[str, Any], **more: Any) -> Inventory:
    return estate(host(), host(), vms=vms, **more)


def leaving(observed: Inventory, **entry: Any) -> tuple[list[str], list[str], list[str]]:
    """Say who is moved, who is switched off, and what was found."""
    findings = Findings()
    desired = wanted(vm("a", "grid_a100-20c"))
    found = plan_evacuation(case(observed, **entry), desired, observed, PlanOptions(), findings)
    moved, off = ([one.name for one in group] for group in (found.moved, found.switched_off))
    return moved, off, [one.code for one in findings.diagnostics()]


@pytest.mark.parametrize(
    ("row", "more", "expected"),
    [
        (PLAIN, {}, (["a"], [], [])),
        (PLAIN | {"power": "poweredOff"}, {}, ([], [], [])),
        (PLAIN | {"name": "vCLS-1"}, {}, ([], [], [])),
        (OTHERS_VGPU, {}, ([], [], ["VG512"])),
        (OTHERS_VGPU, MOVES, (["a"], [], [])),
        (OTHERS_DEVICE, MOVES, ([], [], ["VG512"])),
        (OWN, {}, ([], ["a"], ["VG533"])),
        (PLAIN | {"mark": True}, {}, (["a"], [], [])),
        (PLAIN, {"clusters": {"gpu": {"drs": "manual"}}}, (["a"], [], ["VG512"])),
    ],
)
def test_who_leaves(row: dict[str, Any], more: dict[str, Any], expected: tuple[list[str], ...]) -> None:
    assert leaving(two({"a": row}, **more)) == expected


def test_own_vms_go_off_where_the_entry_allows_it() -> None:
    assert leaving(two({"a": OWN}), disruption={"power_off_own": True}) == ([], ["a"], [])


def test_a_vm_of_this_plan_that_left_the_plan_file_is_not_switched_off() -> None:
    observed = two({"old": OWN | {"mark": "demo/old"}})
    assert leaving(observed, disruption={"power_off_own": True}) == ([], [], ["VG512"])


@pytest.mark.parametrize(
    ("row", "more", "off", "found"),
    [
        (PLAIN, {}, [], []),
        (PLAIN, {"clusters": {"gpu": {"drs": "manual"}}}, [], []),
        (OTHERS_DEVICE, {}, [], []),
        (OTHERS_VGPU, MOVES, [], ["VG512"]),
        (OWN, {}, ["a"], []),
    ],
)
def test_a_graphics_restart_disturbs_vgpus_alone_and_moves_nobody(
    row: dict[str, Any], more: dict[str, Any], off: list[str], found: list[str]
) -> None:
    observed, findings = two({"a": row}, **more), Findings()
    one = case(observed, disruption={"power_off_own": True})
    pause = plan_graphics_pause(one, wanted(vm("a", "grid_a100-20c")), observed, PlanOptions(), findings)
    assert [gone.name for gone in pause.switched_off] == off
    assert [told.code for told in findings.diagnostics()] == found
    assert not pause.moved


def test_an_own_vm_is_off_before_and_on_after() -> None:
    observed = estate(host(), vms={"a": OWN})
    found = planned(wanted(vm("a", "grid_a100-20c"), ats=False), observed, allow_power_cycle=True)
    first, *_, last = kinds(found)
    assert (first, last) == ("power_off_vm", "power_on_vm")
    assert codes(found) == []


@pytest.mark.parametrize(
    ("gib", "allowed", "expected"), [(0, 3, 3), (0, 2, 2), (100, 3, 2), (200, 3, 1), (400, 3, 0)]
)
def test_the_others_must_carry_what_runs_there(gib: int, allowed: int, expected: int) -> None:
    vms = {f"db-{number}": {"host": f"esx-0{number}", "memory_gib": gib} for number in (1, 2, 3) if gib}
    observed, findings = estate(host(), host(), host(), vms=vms), Findings()
    rows = {"disruption": {"max_hosts_down": allowed}}
    cases = [case(observed, name, **rows) for name in ("esx-01", "esx-02", "esx-03")]
    leaves = {
        one.view.host.moid: plan_evacuation(one, wanted(), observed, PlanOptions(), findings) for one in cases
    }
    assert hosts_down(cases, leaves, observed, findings) == expected
    assert [one.code for one in findings.diagnostics()] == ([] if expected else ["VG513"])


def test_only_the_host_that_can_be_emptied_is_changed() -> None:
    found = plan(two({"render": OTHERS_DEVICE}), ats=False)
    assert {change.subject.name for change in found.changes} == {"esx-02"}
