"""The changes of one host in order: calls, restarts, manual steps, and what an earlier run left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.planning.desired_plans import codes
from tests.unit.planning.hosts.plans import GPU, MARK, NIC, SHELL, change, estate, host, kinds, plan
from tests.unit.planning.hosts.test_stretches import drift
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.planning.host_settings.resolved_host import Drift
from vgpu_cfg.planning.hosts.sequence import make_calls

DOWN = ["enter_maintenance", "change_host", "exit_maintenance"]
REBOOT = ["enter_maintenance", "change_host", "reboot_host", "exit_maintenance"]
XORG = ["change_host", "restart_service"]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"ats": False}, REBOOT),
        ({"ats": True}, []),
        ({"gpus": [{"vgpu_mode": "mixed_size"}]}, DOWN),
        ({"gpus": [{"vgpu_mode": "same_size"}]}, []),
        ({"assignment_policy": "consolidation"}, XORG),
        ({"assignment_policy": "performance"}, []),
        ({"pvrdma": {"vmknic": "vmk1"}}, ["change_host", "change_host"]),
    ],
)
def test_nothing_enters_maintenance_that_needs_none(entry: dict[str, Any], expected: list[str]) -> None:
    assert kinds(plan(estate(host()), **entry)) == expected


def test_each_change_needs_the_one_before_it() -> None:
    found = plan(estate(host()), ats=False, gpus=[{"ecc": False}], access=SHELL)
    needs = [one.needs for one in found.changes]
    assert needs == [(), *((one.id,) for one in found.changes[:-1])]


def test_ids_are_unique_where_a_setting_is_written_twice() -> None:
    gpu = GPU | {"sharing": "mig", "ecc": False}
    found = plan(
        estate(host(gpus=[gpu | {"board": "H100"}])), gpus=[{"sharing": "mig", "ecc": True}], access=SHELL
    )
    ids = [one.id for one in found.changes]
    assert len(set(ids)) == len(ids)
    assert kinds(found) == [
        "enter_maintenance",
        "change_host",
        "reboot_host",
        "change_host",
        "exit_maintenance",
    ]


def replaced(one: Drift, group: str) -> Drift:
    """Put a gap's setting into a group."""
    return replace(one, setting=replace(one.setting, group=group))


def test_settings_of_one_group_are_one_call() -> None:
    drifts = [drift("a", Impact.NONE), drift("b", Impact.NONE), drift("c", Impact.NONE)]
    one = [replaced(each, group) for each, group in zip(drifts, ["x", "y", "x"], strict=True)]
    assert [(group, [each.desired.id for each in call]) for group, call in make_calls(one)] == [
        ("x", ["a", "c"]),
        ("y", ["b"]),
    ]


def test_a_call_waits_for_what_one_part_of_it_needs() -> None:
    drifts = [
        drift("a", Impact.NONE),
        drift("b", Impact.NONE),
        drift("c", Impact.NONE, needs_in_force=("b",)),
    ]
    one = [replaced(each, group) for each, group in zip(drifts, ["x", "y", "x"], strict=True)]
    assert [(group, [each.desired.id for each in call]) for group, call in make_calls(one)] == [
        ("y", ["b"]),
        ("x", ["a", "c"]),
    ]


def test_a_group_comes_in_two_calls_where_something_stands_between() -> None:
    drifts = [
        drift("a", Impact.NONE),
        drift("b", Impact.NONE, after=("a",)),
        drift("c", Impact.NONE, needs_in_force=("b",)),
    ]
    one = [replaced(each, group) for each, group in zip(drifts, ["x", "y", "x"], strict=True)]
    assert [group for group, _ in make_calls(one)] == ["x", "y", "x"]


def test_a_step_by_hand_names_the_device_and_the_reboot() -> None:
    step = change(plan(estate(host()), gpus=[{"ecc": False}]), "manual_step")
    assert step.kind == "manual_step"
    assert step.commands == ("nvidia-smi -i 0000:21:00.0 -e 0",)
    assert "{" not in step.proof + step.text
    assert step.text.endswith("then reboot it and exit maintenance mode")


def test_no_step_by_hand_where_the_shell_is_open() -> None:
    assert kinds(plan(estate(host()), gpus=[{"ecc": False}], access=SHELL)) == REBOOT


def test_what_goes_away_is_told_so() -> None:
    row = host(facts={"options": {"Net.PVRDMAVmknic": "vmk1"}})
    first = plan(estate(row), pvrdma=False).changes[0]
    assert [(edit.before, edit.after) for edit in first.edits] == [("vmk1", None)]


LEFT = MARK | {"maintenance": True, "reason": "sets ECC"}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"maintenance": True, "facts": {"mark": LEFT}}, ["enter_maintenance", "exit_maintenance"]),
        ({"facts": {"mark": LEFT}}, ["exit_maintenance"]),
        ({"facts": {"mark": MARK | {"opened_ssh": True}}}, ["exit_maintenance"]),
        ({"maintenance": True, "facts": {"mark": MARK | {"reason": "sets ECC"}}}, ["exit_maintenance"]),
        ({"maintenance": True}, []),
        ({"facts": {"mark": MARK | {"plan": "other"}}}, []),
        ({}, []),
    ],
)
def test_what_an_earlier_run_left_is_brought_to_its_end(row: dict[str, Any], expected: list[str]) -> None:
    assert kinds(plan(estate(host(**row)), ats=True)) == expected


@pytest.mark.parametrize(("plan_name", "found"), [("demo", ["VG531"]), ("other", ["VG525"])])
def test_another_plans_host_is_not_touched(plan_name: str, found: list[str]) -> None:
    mark = LEFT | {"plan": plan_name}
    made = plan(estate(host(maintenance=True, facts={"mark": mark})), ats=False)
    assert codes(made) == found
    assert bool(made.changes) == (plan_name == "demo")


@pytest.mark.parametrize(("canary", "waiting"), [(0, 0), (1, 2), (2, 1)])
def test_the_others_wait_for_the_canaries(canary: int, waiting: int) -> None:
    rows = {"disruption": {"max_hosts_down": 3, "canary": canary}}
    found = plan(estate(host(), host(), host()), ats=False, **rows)
    enters = [one for one in found.changes if one.kind == "enter_maintenance"]
    assert sum(bool(one.needs) for one in enters) == waiting


def test_hosts_of_two_clusters_go_down_together() -> None:
    rows = [host(cluster=name, version="8.0.3") for name in ("a", "b")]
    observed = estate(*rows, clusters={"a": {}, "b": {}})
    found = plan(observed, cluster=None, names=("esx-*",), ats=False, disruption={"max_hosts_down": 2})
    assert [one.max_down for one in found.changes if one.kind == "enter_maintenance"] == [2, 2]


def test_a_nic_is_passed_through_after_its_firmware_is_in_force() -> None:
    rule = {"use": "passthrough", "firmware": {"ATS_ENABLED": "True"}}
    found = plan(estate(host(nics=[NIC])), nics=[rule], access=SHELL)
    assert kinds(found) == [
        "enter_maintenance",
        "change_host",
        "reboot_host",
        "change_host",
        "exit_maintenance",
    ]


STUCK = GPU | {"passthrough_pending": True}


@pytest.mark.parametrize(
    ("gpu", "rule", "expected"),
    [
        (STUCK, {"use": "passthrough"}, ["enter_maintenance", "reboot_host", "exit_maintenance"]),
        (GPU, {"use": "passthrough"}, DOWN),
        (GPU | {"board": "H100", "mig_pending": True}, {"sharing": "mig"}, DOWN),
        (GPU | {"board": "H100", "sharing": "mig", "mig_pending": False}, {"sharing": "time_sliced"}, DOWN),
        (
            GPU | {"mig_pending": True},
            {"sharing": "mig"},
            ["enter_maintenance", "reboot_host", "exit_maintenance"],
        ),
        (GPU | {"board": "H100", "sharing": "mig"}, {"sharing": "mig"}, []),
    ],
)
def test_what_is_written_and_does_not_hold_gets_its_restart_or_is_written_again(
    gpu: dict[str, Any], rule: dict[str, Any], expected: list[str]
) -> None:
    assert kinds(plan(estate(host(gpus=[gpu])), gpus=[rule], access=SHELL)) == expected
