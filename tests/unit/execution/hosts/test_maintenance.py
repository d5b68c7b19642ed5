from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import START
from tests.unit.execution.host_makers import (
    LIVE,
    change,
    enter,
    estate,
    leave,
    only,
    run,
    tools_for,
)
from tests.unit.execution.makers import plan_of, statuses
from vgpu_cfg.errors import Interrupted, NotOffered, NotPermitted, Unreachable, VCenterError
from vgpu_cfg.execution import RunOptions, exit_code_of
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.hosts.steps import enter_maintenance
from vgpu_cfg.execution.run.session import RunSession
from vgpu_cfg.model.observed.vm import PassthroughDevice, PowerState, VgpuDevice, VirtualNic, VmDetail
from vgpu_cfg.planning.hosts.window import parse_window

SATURDAY_NIGHT = datetime(2026, 3, 7, 23, 0, tzinfo=UTC)
CLOSED = "the window Sat 22:00-04:00 UTC is currently closed; it opens on Sat 2026-03-07 at 22:00 UTC"


def add_vm(server: FakeHosts, name: str, **devices: Any) -> None:
    server.add_vm(name, f"vm-{name}", VmDetail(**devices), host_moid="host-1", power_state=PowerState.ON)


# ------------------------------------------------------------- entering


def test_a_host_is_marked_before_the_alarm_and_the_alarm_comes_before_the_mode() -> None:
    server = estate()
    report, _ = run(server, enter())
    assert server.asked() == [
        ("set_host_attribute", "esx-01 vgpu_cfg.host"),
        ("raise_alarm", "esx-01"),
        ("enter_maintenance", "esx-01"),
    ]
    host = server.host("esx-01")
    assert host.maintenance
    assert host.alarms == {"demo": "sets ats"}
    assert host.mark is not None
    assert (host.mark.plan, host.mark.maintenance, host.mark.reason) == ("demo", True, "sets ats")
    assert statuses(report) == {"enter esx-01": "done"}
    assert tuple(map(str, report.left_behind)) == ("esx-01: in maintenance mode: sets ats",)


def test_a_host_that_is_down_under_this_plans_mark_needs_nothing_even_outside_the_window() -> None:
    server = estate()
    server.host("esx-01").maintenance = True
    server.host("esx-01").set_mark(maintenance=True, reason="reboot esx-01: it did not come back")
    report, _ = run(server, enter(window="Sat 22:00-04:00 UTC"))
    assert statuses(report) == {"enter esx-01": "not_needed"}
    assert server.asked("enter_maintenance") == []
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.reason == "sets ats"


@pytest.mark.parametrize("mark", [{}, {"opened_ssh": True}])
def test_a_host_that_somebody_else_took_down_is_refused(mark: dict[str, Any]) -> None:
    server = estate()
    server.host("esx-01").maintenance = True
    if mark:
        server.host("esx-01").set_mark(**mark)
    report, _ = run(server, enter())
    assert "esx-01 entered maintenance mode for another reason after planning" in only(report).message
    assert server.asked("enter_maintenance", "raise_alarm") == []


def test_a_host_at_which_another_plan_works_is_refused_by_its_name() -> None:
    server = estate()
    server.host("esx-01").set_mark(plan="other", maintenance=True, reason="sets mig")
    report, _ = run(server, enter())
    assert "plan other has been working on esx-01 since 2026-03-02 21:04: sets mig" in only(report).message
    assert server.asked() == []


def test_outside_the_window_nothing_is_begun_and_inside_it_is() -> None:
    server = estate()
    report, _ = run(server, enter(window="Sat 22:00-04:00 UTC"))
    assert only(report).message == CLOSED
    assert server.asked() == []
    assert tuple(map(str, report.left_behind)) == (f"esx-01: not started: {CLOSED}",)
    assert exit_code_of(report) == 7
    server = estate(time=SATURDAY_NIGHT)
    report, _ = run(server, enter(window="Sat 22:00-04:00 UTC"))
    assert statuses(report) == {"enter esx-01": "done"}


def test_a_host_that_would_not_end_in_the_window_is_not_begun_and_the_next_one_may_be() -> None:
    server = estate(2, time=SATURDAY_NIGHT)
    left = parse_window("Sat 22:00-04:00 UTC").seconds_left(SATURDAY_NIGHT)
    assert left is not None
    long = enter(window="Sat 22:00-04:00 UTC", takes_seconds=int(left) + 60)
    short = enter("esx-02", window="Sat 22:00-04:00 UTC", takes_seconds=int(left))
    report, _ = run(server, long, short)
    assert statuses(report) == {"enter esx-01": "skipped", "enter esx-02": "done"}
    assert report.put_off == ("esx-01",)
    assert exit_code_of(report) == 7


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        (
            {"passthrough": (PassthroughDevice(key=1, pci_id="0000:3b:00.0"),)},
            "it uses a device on this host",
        ),
        ({"nics": (VirtualNic(key=1, kind="sriov"),)}, "it uses a device on this host"),
        (
            {"vgpus": (VgpuDevice(key=1, profile="grid_a100-40c"),)},
            "it has a vGPU and was moved to this host after planning",
        ),
    ],
)
def test_a_vm_that_cannot_be_moved_stops_it_by_its_name(devices: dict[str, Any], words: str) -> None:
    server = estate()
    add_vm(server, "stranger", **devices)
    report, _ = run(server, enter())
    assert f"stranger is running on esx-01 and cannot be migrated: {words}" in only(report).message
    assert server.asked() == []


@pytest.mark.parametrize("is_planned", [True, False])
def test_a_vm_whose_devices_nobody_may_read_stops_it_whatever_the_plan_says(is_planned: bool) -> None:
    server = estate()
    add_vm(server, "veiled")
    server.vms["vm-veiled"] = server.vm("veiled").model_copy(update={"detail": None})
    report, _ = run(server, enter(evacuates=("veiled",) if is_planned else ()))
    assert (
        "veiled is running on esx-01 and cannot be migrated: the account has no read" in only(report).message
    )
    assert server.asked() == []
    add_vm(server, "veiled")
    report, _ = run(server, enter(evacuates=("veiled",) if is_planned else ()))
    assert statuses(report) == {"enter esx-01": "done"}


def test_a_vm_of_the_plan_with_a_vgpu_is_moved_and_one_that_can_be_moved_is_told() -> None:
    server = estate()
    add_vm(server, "planned", vgpus=(VgpuDevice(key=1, profile="grid_a100-40c"),))
    add_vm(server, "new")
    report, events = run(server, enter(evacuates=("planned",)))
    assert statuses(report) == {"enter esx-01": "done"}
    told = "DRS also migrates VMs that were started on the host after planning: new"
    assert told in [event.message for event in events]


def test_a_vm_elsewhere_or_switched_off_is_in_nobodys_way() -> None:
    server = estate()
    held = VmDetail(passthrough=(PassthroughDevice(key=1, pci_id="0000:3b:00.0"),))
    server.add_vm("off", "vm-off", held, host_moid="host-1")
    server.add_vm("elsewhere", "vm-2", held, host_moid="host-2", power_state=PowerState.ON)
    report, _ = run(server, enter())
    assert statuses(report) == {"enter esx-01": "done"}


@pytest.mark.parametrize("error", [NotPermitted("no right to make alarms"), NotOffered("no alarms here")])
def test_an_alarm_that_cannot_be_made_is_only_told(error: NotPermitted | NotOffered) -> None:
    server = estate(refused={("raise_alarm", 1): error})
    report, events = run(server, enter())
    assert statuses(report) == {"enter esx-01": "done"}
    assert f"no alarm was created on the host: {error.message}" in [event.message for event in events]


def test_a_host_that_could_not_be_emptied_keeps_neither_mark_nor_alarm() -> None:
    server = estate(failures={("enter_maintenance task", 1): ("Timedout", "The operation timed out.")})
    report, _ = run(server, enter())
    host = server.host("esx-01")
    assert "put esx-01 into maintenance mode: The operation timed out." in only(report).message
    assert (host.mark, host.alarms, host.maintenance) == (None, {}, False)
    assert report.left_behind == ()


def test_a_task_that_succeeded_and_brought_nothing_is_not_believed() -> None:
    server = estate(blocked=True)
    report, _ = run(server, enter())
    assert "esx-01 is not in maintenance mode even though the task succeeded" in only(report).message
    mark = server.host("esx-01").mark
    assert mark is not None  # vCenter says that it is there: nobody shall find it without a reason
    assert mark.reason.startswith("enter esx-01: esx-01 is not in maintenance mode")


@pytest.mark.parametrize("limit", [1800, 0])
def test_what_a_killed_run_began_is_waited_for_though_vcenter_refuses_it_twice(limit: int) -> None:
    server = estate(task_seconds=300.0)
    server.host("esx-01").set_mark(maintenance=True, reason="sets ats")
    server.enter_maintenance("host-1", None, limit)
    report, _ = run(server, enter(timeout_seconds=limit))
    assert statuses(report) == {"enter esx-01": "done"}
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.maintenance
    assert server.host("esx-01").alarms == {"demo": "sets ats"}


def test_a_refused_entry_without_an_earlier_run_is_taken_back_at_once() -> None:
    server = estate(refused={("enter_maintenance", 1): VCenterError("not in this state")})
    report, _ = run(server, enter())
    assert only(report).message == "not in this state"
    assert server.time == START
    assert (server.host("esx-01").mark, server.host("esx-01").alarms) == (None, {})


def test_an_entry_of_an_earlier_run_that_never_comes_is_taken_back_in_the_end() -> None:
    server = estate(refused={("enter_maintenance", 1): VCenterError("not in this state")})
    server.host("esx-01").set_mark(maintenance=True)
    report, _ = run(server, enter(timeout_seconds=600))
    assert only(report).message == "not in this state"
    assert (server.time - START).total_seconds() >= 600
    assert server.host("esx-01").mark is None


def test_an_entry_whose_answer_was_lost_keeps_its_mark() -> None:
    server = estate(refused={("enter_maintenance", 1): Unreachable("the connection broke")})
    run(server, enter())
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.maintenance
    assert server.host("esx-01").alarms == {"demo": "sets ats"}


def test_an_entry_that_was_stopped_before_it_began_leaves_nothing() -> None:
    server = estate()
    tools = tools_for(server)
    session = RunSession(plan_of(enter()), server, server, server, RunOptions(), undisputed())
    step = enter_maintenance(enter(), HostSession(session, tools))
    raise_alarm = server.raise_alarm

    def stopped(host_moid: str, plan: str, reason: str) -> None:
        raise_alarm(host_moid, plan, reason)
        session.is_stopping = True

    server.raise_alarm = stopped  # type: ignore[method-assign]  # the fake is bent for this test
    with pytest.raises(Interrupted):
        next(step)
    assert (server.host("esx-01").mark, server.host("esx-01").alarms) == (None, {})
    assert server.asked("enter_maintenance") == []


def test_a_host_of_which_vcenter_does_not_tell_the_mark_is_not_touched() -> None:
    server = estate()
    server.host("esx-01").unread = "this vCenter does not report its custom attributes"
    report, _ = run(server, enter(), change(LIVE))
    words = "esx-01 cannot be read: this vCenter does not report its custom attributes"
    assert {outcome.message for outcome in report.outcomes} == {words}
    assert server.asked() == []


@pytest.mark.parametrize("what", ["gone", "silent"])
def test_a_host_that_has_gone_or_does_not_answer_is_refused(what: str) -> None:
    server = estate()
    if what == "gone":
        del server.hosts["host-1"]
    else:
        server.host("esx-01").connected = False
    report, _ = run(server, enter())
    assert ("no longer exists" if what == "gone" else "is not responding") in only(report).message
    assert server.asked() == []


def test_a_host_that_somebody_else_holds_down_is_marked_and_given_back_to_them() -> None:
    server = estate()
    server.host("esx-01").maintenance = True
    report, _ = run(server, enter(is_held=True))
    assert server.asked() == [("set_host_attribute", "esx-01 vgpu_cfg.host")]
    assert tuple(map(str, report.left_behind)) == ("esx-01: in maintenance mode: sets ats",)
    report, _ = run(server, leave(is_held=True))
    assert server.host("esx-01").mark is None
    assert server.host("esx-01").maintenance
    assert statuses(report) == {"leave esx-01": "done"}
    assert server.asked("exit_maintenance", "clear_alarm") == []
    assert report.left_behind == ()


def test_a_host_that_its_holder_has_given_back_is_planned_anew() -> None:
    server = estate()
    report, _ = run(server, enter(is_held=True))
    assert "esx-01 has exited the maintenance mode that another user had started" in only(report).message
    assert server.asked() == []
