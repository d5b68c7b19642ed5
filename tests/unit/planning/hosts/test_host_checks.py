"""What only a check says of hosts: owners, maintenance by others, disruption, windows, drivers, nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import PLAN_ID
from tests.unit.planning.desired_plans import codes
from tests.unit.planning.hosts.plans import GPU, MARK, NIC, estate, free, host, kinds, plan
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import EnterMaintenance, ExitMaintenance
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.planning.host_settings.resolved_host import make_view

NEW = {"NVD-AIE_ESXi_8.0.0_Driver": "580.95.02-1OEM", "nvdgpumgmtdaemon": "580.95.02"}
OLD = {"NVD-AIE_ESXi_8.0.0_Driver": "570.10.01-1OEM", "nvdgpumgmtdaemon": "570.10.01"}
ALONE = {"NVD-AIE_ESXi_8.0.0_Driver": "580.95.02-1OEM"}


@pytest.mark.parametrize(
    ("row", "more", "entry", "found"),
    [
        ({"facts": {"owners": ["host profile Gold"]}}, {}, {"ats": False}, ["VG511"]),
        ({"facts": {"owners": ["host profile Gold"]}}, {}, {"ats": True}, []),
        ({"facts": {"owners": ["host profile Gold"]}}, {}, {"ats": False, "mode": "check"}, ["VG508"]),
        ({}, {"clusters": {"gpu": {"config_profile": True}}}, {"ats": False}, ["VG511"]),
        ({}, {"clusters": {"gpu": {"image": True}}}, {"ats": False}, []),
    ],
)
def test_what_somebody_else_owns_is_not_written(
    row: dict[str, Any], more: dict[str, Any], entry: dict[str, Any], found: list[str]
) -> None:
    made = plan(estate(host(**row), **more), **entry)
    assert codes(made) == found
    assert not (found and free(made))


@pytest.mark.parametrize(("is_managed", "found"), [(True, ["VG511"]), (False, [])])
def test_an_image_owns_the_driver(found: list[str], *, is_managed: bool) -> None:
    driver = {"version": "580.*", "by": "esxcli", "depot": ("/vmfs/volumes/vsan/NVD.zip",)}
    observed = estate(host(driver=False), clusters={"gpu": {"image": is_managed}})
    assert codes(plan(observed, driver=driver)) == found


@pytest.mark.parametrize(
    ("row", "entry", "found"),
    [
        ({"maintenance": True}, {"ats": False}, ["VG525"]),
        ({"maintenance": True}, {"ats": True}, ["VG550"]),
        ({"maintenance": True}, {"ats": False, "mode": "check"}, ["VG508"]),
        ({"facts": {"mark": MARK | {"plan": "other"}}}, {"ats": False}, ["VG525"]),
        ({"facts": {"mark": MARK | {"plan": "other"}}}, {"ats": True}, []),
    ],
)
def test_a_host_that_others_hold(row: dict[str, Any], entry: dict[str, Any], found: list[str]) -> None:
    assert codes(plan(estate(host(**row)), **entry)) == found


def test_a_host_that_others_hold_stays_in_maintenance_mode() -> None:
    found = plan(estate(host(maintenance=True)), ats=False)
    held = [
        change.is_held for change in found.changes if isinstance(change, EnterMaintenance | ExitMaintenance)
    ]
    assert held == [True, True]


@pytest.mark.parametrize(
    ("entry", "allow", "found"),
    [
        ({"ats": False}, [], ["VG514"]),
        ({"ats": False}, ["maintenance"], ["VG514"]),
        ({"ats": False}, ["maintenance", "reboot"], []),
        ({"gpus": [{"vgpu_mode": "mixed_size"}]}, ["maintenance"], []),
        ({"gpus": [{"vgpu_mode": "mixed_size"}]}, [], ["VG514"]),
        ({"assignment_policy": "consolidation"}, [], []),
    ],
)
def test_only_what_is_allowed_is_done(entry: dict[str, Any], allow: list[str], found: list[str]) -> None:
    made = plan(estate(host()), disruption={"allow": allow}, **entry)
    assert codes(made) == found
    assert bool(free(made)) == (not found)
    assert made.changes  # what it would do is shown all the same


@pytest.mark.parametrize(
    ("window", "entry", "found"),
    [
        ("Fri 22:00-23:00 Europe/Berlin", {"ats": False}, []),
        ("Sun 02:00-06:00 Europe/Berlin", {"ats": False}, ["VG515"]),
        ("Sun 02:00-06:00 Europe/Berlin", {"ats": True}, []),
        ("Sun 02:00-06:00 Europe/Berlin", {"assignment_policy": "consolidation"}, []),
    ],
)
def test_a_window_is_told_of_where_it_is_closed_and_a_host_must_go_down(
    window: str, entry: dict[str, Any], found: list[str]
) -> None:
    assert codes(plan(estate(host()), disruption={"window": window}, **entry)) == found


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [(NEW, NEW, []), (NEW, OLD, ["VG519"]), (NEW, ALONE, ["VG520"]), (ALONE, ALONE, ["VG520", "VG520"])],
)
def test_drivers_of_a_cluster_are_compared(
    first: dict[str, str], second: dict[str, str], found: list[str]
) -> None:
    rows = [host(facts={"software": software}) for software in (first, second)]
    assert codes(plan(estate(*rows), gpus=[{"use": "vgpu"}])) == found


@pytest.mark.parametrize(
    ("nic", "use", "found"),
    [(1, "passthrough", ["VG522"]), (0, "passthrough", []), (1, "host", []), (1, "sriov", ["VG522"])],
)
def test_a_nic_for_vms_is_near_a_gpu(nic: int, use: str, found: list[str]) -> None:
    observed = estate(host(gpus=[GPU], nics=[NIC | {"node": nic}]))
    assert codes(plan(observed, nics=[{"use": use, "vfs": 4 if use == "sriov" else None}])) == found


@pytest.mark.parametrize(
    ("mark", "found", "expected"),
    [
        (None, ["VG526"], []),
        (MARK | {"maintenance": True}, ["VG531"], ["manual_step"]),
        (MARK, ["VG526"], []),
    ],
)
def test_a_silent_host_is_told_but_one_that_was_shut_down(
    mark: dict[str, Any] | None, found: list[str], expected: list[str]
) -> None:
    facts = {"mark": mark} if mark is not None else {}
    made = plan(estate(host(connection="notResponding", facts=facts)), ats=False)
    assert codes(made) == found
    assert kinds(made) == expected


@pytest.mark.parametrize(("in_maintenance", "found"), [(True, ["VG531"]), (False, [])])
def test_a_host_that_was_taken_out_by_hand_stands_waiting_no_more(
    found: list[str], *, in_maintenance: bool
) -> None:
    mark = MARK | {"maintenance": True}
    row = host(maintenance=in_maintenance, facts={"mark": mark})
    assert codes(plan(estate(row), ats=True)) == found


def test_a_check_tells_of_each_difference_and_of_what_waits() -> None:
    kernel = {"atsSupport": {"configured": "TRUE", "runtime": "FALSE"}}
    found = plan(
        estate(host(facts={"kernel": kernel})), mode="check", ats=True, assignment_policy="consolidation"
    )
    assert [one.message for one in found.diagnostics] == [
        "kernel atsSupport is set to TRUE, pending a restart",
        "vGPU assignment policy is performance, but the plan requires consolidation",
    ]
    assert found.changes == ()


OUT = {"gpus": [GPU | {"passthrough": True}]}
HOLDS = {"host": "esx-01", "power": "poweredOff", "passthrough": [{"pci": "0000:21:00.0"}]}
UNREAD = {"host": "esx-01", "power": "poweredOff", "readable": False}


@pytest.mark.parametrize(
    ("vms", "use", "found"),
    [
        ({}, "vgpu", []),
        ({"pt-01": HOLDS}, "vgpu", ["VG518"]),
        ({"pt-01": HOLDS}, "passthrough", []),
        ({"pt-01": HOLDS | {"mark": "other/pt-01"}}, "vgpu", ["VG518"]),
        ({"pt-01": UNREAD}, "vgpu", ["VG118"]),
        ({"pt-01": UNREAD}, "passthrough", []),
    ],
)
def test_a_device_is_not_taken_back_from_vms_of_others_unseen(
    vms: dict[str, Any], use: str, found: list[str]
) -> None:
    assert codes(plan(estate(host(**OUT), vms=vms), gpus=[{"use": use}])) == found


def test_vms_of_the_plan_itself_and_templates_hold_nothing() -> None:
    observed = estate(host(**OUT), vms={"pt-01": HOLDS | {"mark": True}, "odd": UNREAD})
    one = observed.hosts[0]
    assert make_view(one, observed, load_catalog(), plan=PlanIdentity(name="demo", id=PLAN_ID)).holders == {
        "": ("odd",)
    }
    assert make_view(one, observed, load_catalog()).holders == {"0000:21:00.0": ("pt-01",), "": ("odd",)}
