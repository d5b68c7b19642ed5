"""Who leaves a host: moved, switched off, or in the way; and how many hosts may be down."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes, planned, vm
from tests.unit.planning.hosts.plans import (
    GPU,
    MARK,
    change,
    estate,
    free,
    host,
    kinds,
    plan,
    resolved,
    wanted,
)
from vgpu_cfg.changes.change import EnterMaintenance
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.hosts.evacuate import hosts_down, plan_evacuation, plan_graphics_pause

PCI = GPU["pci"]
PLAIN = {"host": "esx-01", "memory_gib": 64}
OTHERS_VGPU = PLAIN | {"gpus": ["grid_a100-20c"], "on": [PCI]}
OTHERS_DEVICE = PLAIN | {"passthrough": [{"pci": PCI}]}
OTHERS_FUNCTION = PLAIN | {"nics": [{"network": "vm-network", "kind": "sriov"}]}
UNREAD = PLAIN | {"readable": False}
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
    found = plan_evacuation(resolved(observed, **entry), desired, observed, PlanOptions(), findings)
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
        (OTHERS_FUNCTION, MOVES, ([], [], ["VG512"])),
        (OTHERS_VGPU | OTHERS_FUNCTION, MOVES, ([], [], ["VG512"])),
        (PLAIN | {"nics": ["vm-network"]}, MOVES, (["a"], [], [])),
        (UNREAD, MOVES, ([], [], ["VG512"])),
        (OWN, {}, ([], ["a"], ["VG533"])),
        (PLAIN | {"mark": True}, {}, (["a"], [], [])),
        (PLAIN, {"clusters": {"gpu": {"drs": "manual"}}}, (["a"], [], ["VG512"])),
    ],
)
def test_who_leaves(row: dict[str, Any], more: dict[str, Any], expected: tuple[list[str], ...]) -> None:
    assert leaving(two({"a": row}, **more)) == expected


@pytest.mark.parametrize(
    ("drs", "own", "found"),
    [
        ("fullyAutomated", "manual", ["VG512"]),
        ("fullyAutomated", "partiallyAutomated", ["VG512"]),
        ("fullyAutomated", "disabled", ["VG512"]),
        ("fullyAutomated", "fullyAutomated", []),
        ("manual", "fullyAutomated", []),
        ("manual", "manual", ["VG512"]),
        ("off", "fullyAutomated", ["VG512"]),
    ],
)
def test_a_vms_own_drs_setting_counts_before_the_clusters(drs: str, own: str, found: list[str]) -> None:
    clusters = {"gpu": {"drs": drs, "drs_overrides": {"a": own}}}
    assert leaving(two({"a": PLAIN}, clusters=clusters)) == (["a"], [], found)


def test_the_vm_that_drs_leaves_alone_is_named_with_its_setting() -> None:
    clusters = {"gpu": {"drs": "fullyAutomated", "drs_overrides": {"b": "disabled"}}}
    findings = Findings()
    observed = two({"a": PLAIN, "b": PLAIN}, clusters=clusters)
    plan_evacuation(resolved(observed), wanted(), observed, PlanOptions(), findings)
    (told,) = findings.diagnostics()
    assert told.message == "DRS does not migrate b because the cluster has a VM override for it (disabled)"


def test_a_vm_that_is_off_minds_no_setting_of_its_own() -> None:
    clusters = {"gpu": {"drs": "fullyAutomated", "drs_overrides": {"a": "manual"}}}
    assert leaving(two({"a": PLAIN | {"power": "poweredOff"}}, clusters=clusters)) == ([], [], [])


BOTH = {"evacuate_vgpu": True, "hot_migrate": True}
NEEDED = ("set VgpuMMAutomationTimeoutSecs on gpu", "set vgpu.hotmigrate.enabled on vc.example")


@pytest.mark.parametrize(
    ("row", "before", "options", "needs", "found"),
    [
        (OTHERS_VGPU, "false", BOTH, NEEDED, []),
        (PLAIN, "false", BOTH, (), []),
        (OTHERS_VGPU, "true", BOTH, NEEDED[:1], []),
        (OTHERS_VGPU, "false", {"evacuate_vgpu": True}, None, ["VG512"]),
        (OTHERS_VGPU, "false", {"hot_migrate": True}, None, ["VG512"]),
    ],
)
def test_a_host_is_judged_by_the_options_that_the_plan_sets_and_waits_for_them(
    row: dict[str, Any],
    before: str,
    options: dict[str, bool],
    needs: tuple[str, ...] | None,
    found: list[str],
) -> None:
    observed = two({"a": row}, vcenter_options={"vgpu.hotmigrate.enabled": before})
    made = plan(observed, names=("esx-01",), ats=False, cluster_options=options)
    entered = [change.needs for change in free(made) if change.kind == "enter_maintenance"]
    assert entered == ([] if needs is None else [needs])
    assert codes(made) == found


def test_an_option_that_the_plan_takes_out_moves_nobody() -> None:
    made = plan(two({"a": OTHERS_VGPU}, **MOVES), ats=False, cluster_options={"evacuate_vgpu": False})
    assert codes(made) == ["VG512"]


@pytest.mark.parametrize(("row", "is_kept"), [(OTHERS_VGPU, True), (PLAIN, False)])
def test_of_a_part_of_the_plan_the_options_stay_that_its_hosts_need(
    row: dict[str, Any], is_kept: bool
) -> None:
    observed = two({"a": row}, vcenter_options={"vgpu.hotmigrate.enabled": "true"})
    made = planned(wanted(ats=False, cluster_options=BOTH), observed, only=("host:esx-01",))
    assert ("set_cluster_option" in kinds(made)) is is_kept
    assert "enter_maintenance" in kinds(made)


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
        (PLAIN | {"on": [PCI]}, MOVES, [], ["VG512"]),
        (PLAIN | {"on": [PCI], "mark": True}, MOVES, ["a"], []),
        (UNREAD, MOVES, [], ["VG512"]),
        (OWN, {}, ["a"], []),
    ],
)
def test_a_graphics_restart_disturbs_vgpus_alone_and_moves_nobody(
    row: dict[str, Any], more: dict[str, Any], off: list[str], found: list[str]
) -> None:
    observed, findings = two({"a": row}, **more), Findings()
    one = resolved(observed, disruption={"power_off_own": True})
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
    resolved_hosts = [resolved(observed, name, **rows) for name in ("esx-01", "esx-02", "esx-03")]
    leaves = {
        one.view.host.moid: plan_evacuation(one, wanted(), observed, PlanOptions(), findings)
        for one in resolved_hosts
    }
    assert hosts_down(resolved_hosts, leaves, observed, findings) == expected
    assert [one.code for one in findings.diagnostics()] == ([] if expected else ["VG513"])


VSAN = {"vmknics": [{"device": "vmk1", "services": ["vsan"]}]}
VMOTION = {"vmknics": [{"device": "vmk1", "services": ["vmotion"]}]}


@pytest.mark.parametrize(
    ("facts", "vsan", "expected"),
    [
        (VMOTION, None, 3),
        (VSAN, None, 1),
        (VSAN, "ensureAccessibility", 1),
        (VSAN, "noAction", 1),
        (VSAN, "evacuateAllData", 3),
    ],
)
def test_vsan_bears_one_host_less_unless_all_data_leaves(
    facts: dict[str, Any], vsan: str | None, expected: int
) -> None:
    observed = estate(host(), host(), host(facts=facts))
    assert most_down(observed, vsan=vsan) == (expected, [])


@pytest.mark.parametrize(
    ("vms", "expected"),
    [
        ({}, 2),
        ({"a": OWN}, 2),
        ({"a": OWN, "b": OWN | {"host": "esx-02"}}, 1),
        ({"a": PLAIN | {"memory_gib": 0}}, 1),
    ],
)
def test_of_hosts_that_run_vms_one_stays_up(vms: dict[str, Any], expected: int) -> None:
    assert most_down(two(vms), power_off_own=True) == (expected, [])


def test_a_host_that_an_earlier_run_left_counts_with_those_that_carry() -> None:
    left = host(maintenance=True, facts={"mark": {**MARK, "maintenance": True}})
    observed = estate(left, host(), vms={"db": PLAIN | {"host": "esx-02"}})
    assert most_down(observed) == (1, [])


def test_a_host_that_others_hold_carries_nothing() -> None:
    observed = estate(host(), host(maintenance=True), vms={"db": PLAIN})
    assert most_down(observed, names=("esx-01",)) == (0, ["VG513"])


def most_down(
    observed: Inventory, *, names: tuple[str, ...] = (), **disruption: Any
) -> tuple[int, list[str]]:
    """Say how many hosts may be down, where the plan file would let all be; and what was found."""
    findings = Findings()
    rows = {"disruption": {"max_hosts_down": len(observed.hosts)} | disruption}
    resolved_hosts = [
        resolved(observed, one.name, **rows) for one in observed.hosts if one.name in names or not names
    ]
    desired = wanted(vm("a", "grid_a100-20c"), vm("b", "grid_a100-20c"))
    leaves = {
        one.view.host.moid: plan_evacuation(one, desired, observed, PlanOptions(), findings)
        for one in resolved_hosts
    }
    return hosts_down(resolved_hosts, leaves, observed, findings), [
        one.code for one in findings.diagnostics()
    ]


@pytest.mark.parametrize(("vsan", "seconds"), [(None, 1800), ("noAction", 1800), ("evacuateAllData", 0)])
def test_all_data_of_vsan_may_take_as_long_as_it_takes(vsan: str | None, seconds: int) -> None:
    found = change(plan(estate(host()), ats=False, disruption={"vsan": vsan}), "enter_maintenance")
    assert isinstance(found, EnterMaintenance)
    assert found.timeout_seconds == seconds


def test_only_the_host_that_can_be_emptied_is_changed() -> None:
    found = plan(two({"render": OTHERS_DEVICE}), ats=False)
    assert {change.subject.name for change in free(found)} == {"esx-02"}
