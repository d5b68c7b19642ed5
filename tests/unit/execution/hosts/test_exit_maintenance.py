from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_locks import undisputed
from tests.unit.execution.host_makers import (
    ATS,
    LIVE,
    MIG,
    OPEN,
    change,
    enter,
    estate,
    in_order,
    leave,
    only,
    reboot,
    run,
    tools_for,
)
from tests.unit.execution.makers import plan_of, statuses
from vgpu_cfg.changes.report import Event
from vgpu_cfg.errors import NotPermitted, VCenterError
from vgpu_cfg.execution import Run


def down(server: FakeHosts, **mark: Any) -> None:
    host = server.host("esx-01")
    host.maintenance = True
    host.alarms["demo"] = "sets ats"
    host.set_mark(**{"maintenance": True, "reason": "sets ats"} | mark)


def test_leaving_reads_back_leaves_clears_the_alarm_closes_the_shell_and_clears_the_mark_in_this_order() -> (
    None
):
    server = estate()
    down(server, opened_ssh=True)
    server.host("esx-01").services["TSM-SSH"] = True
    server.host("esx-01").configure("live", "on")
    report, _ = run(server, leave(settles=(LIVE,)))
    assert server.asked() == [
        ("exit_maintenance", "esx-01"),
        ("clear_alarm", "esx-01"),
        ("stop_service", "esx-01 TSM-SSH"),
        ("set_host_attribute", "esx-01 vgpu_cfg.host"),
        ("set_host_attribute", "esx-01 vgpu_cfg.host"),
    ]
    host = server.host("esx-01")
    assert (host.maintenance, host.mark, host.alarms) == (False, None, {})
    assert statuses(report) == {"leave esx-01": "done"}
    (reading,) = only(report).readings
    assert (reading.setting, reading.wanted, reading.configured, reading.runtime) == (
        "live",
        "on",
        "on",
        "on",
    )
    assert report.left_behind == ()


def test_what_held_before_its_device_was_handed_out_need_not_be_told_again() -> None:
    changes = in_order(enter(), change(MIG), reboot(settles=(MIG,)), change(LIVE), leave(settles=(MIG, LIVE)))

    def hand_out(server: FakeHosts) -> Callable[[Event], None]:
        def take(event: Event) -> None:
            if event.change_id == "set live on esx-01" and event.status is not None:
                server.host("esx-01").configured["mig"] = "handed out"

        return take

    server = estate()
    report = Run(
        plan_of(*changes),
        server,
        server,
        server,
        locks=undisputed(),
        hosts=tools_for(server),
        on_event=hand_out(server),
    ).carry_out()
    assert statuses(report)["leave esx-01"] == "done"
    server = estate()
    down(server)
    server.host("esx-01").configured["mig"] = "handed out"
    report, _ = run(server, leave(settles=(MIG,)))
    assert "mig could not be read: the host cannot ask it" in only(report).message


def test_a_host_that_is_on_its_way_out_is_waited_for() -> None:
    server = estate()
    down(server)
    server.exit_maintenance("host-1", 600)
    report, _ = run(server, leave())
    assert statuses(report) == {"leave esx-01": "done"}
    assert (server.host("esx-01").mark, server.host("esx-01").maintenance) == (None, False)


def test_a_host_that_is_not_let_out_stays_down_with_its_reason() -> None:
    server = estate(refused={("exit_maintenance", 1): VCenterError("not in this state")})
    down(server)
    report, _ = run(server, leave())
    assert only(report).message == "not in this state"
    assert tuple(map(str, report.left_behind)) == (
        "esx-01: in maintenance mode: leave esx-01: not in this state",
    )


def test_a_host_that_has_left_already_only_loses_its_mark_and_its_alarm() -> None:
    server = estate()
    down(server)
    server.host("esx-01").maintenance = False
    report, _ = run(server, leave(settles=(LIVE,)))
    assert statuses(report) == {"leave esx-01": "not_needed"}
    assert (server.host("esx-01").mark, server.host("esx-01").alarms) == (None, {})
    assert server.asked("exit_maintenance") == []
    server = estate()
    run(server, leave())
    assert server.asked() == []


def test_a_host_does_not_leave_while_a_setting_is_not_in_force_and_says_why_it_stays() -> None:
    server = estate()
    down(server)
    server.host("esx-01").configure("ats", "TRUE")
    report, _ = run(server, leave(settles=(ATS,)))
    host = server.host("esx-01")
    assert "ats is set to TRUE, pending reboot" in only(report).message
    assert host.maintenance
    assert host.alarms == {"demo": "sets ats"}
    assert host.mark is not None
    assert host.mark.reason.startswith("leave esx-01: esx-01 does not have the requested settings")
    assert tuple(map(str, report.left_behind)) == (f"esx-01: in maintenance mode: {host.mark.reason}",)


def test_a_host_that_somebody_else_took_down_is_not_given_back() -> None:
    server = estate()
    server.host("esx-01").maintenance = True
    report, _ = run(server, leave())
    assert "is in maintenance mode, but not for this plan" in only(report).message
    assert server.asked() == []


def test_an_alarm_that_cannot_be_removed_is_only_told() -> None:
    server = estate(refused={("clear_alarm", 1): NotPermitted("no right to remove alarms")})
    down(server)
    report, events = run(server, leave())
    assert statuses(report) == {"leave esx-01": "done"}
    assert any("no right to remove alarms" in event.message for event in events)
    assert server.host("esx-01").mark is None


def test_a_failed_change_leaves_the_host_down_with_its_reason() -> None:
    server = estate()
    server.host("esx-01").deaf = {"live"}
    report, _ = run(server, *in_order(enter(), change(LIVE), leave()))
    assert statuses(report) == {
        "enter esx-01": "done",
        "set live on esx-01": "failed",
        "leave esx-01": "skipped",
    }
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.reason.startswith(
        "set live on esx-01: esx-01 does not have the requested settings: live is off"
    )
    assert server.host("esx-01").alarms == {"demo": "sets ats"}
    assert tuple(map(str, report.left_behind)) == (f"esx-01: in maintenance mode: {mark.reason}",)


def test_the_tools_of_a_run_close_its_shells_when_they_are_left() -> None:
    server = estate()
    with tools_for(server, access=OPEN) as tools:
        (seen,) = server.read_hosts(["host-1"])
        facts = server.read_facts(["host-1"], frozenset()).hosts["host-1"]
        tools.marks.take(seen, facts)
        tools.shells.shell(seen, facts)
        assert server.host("esx-01").services["TSM-SSH"]
    assert not server.host("esx-01").services["TSM-SSH"]
    assert server.host("esx-01").mark is None


def test_a_shell_that_cannot_be_closed_stays_on_the_mark_of_a_host_that_has_left() -> None:
    server = estate(refused={("stop_service", n): VCenterError("not now") for n in (1, 2, 3)})
    down(server, opened_ssh=True)
    server.host("esx-01").services["TSM-SSH"] = True
    report, _ = run(server, leave())
    assert statuses(report) == {"leave esx-01": "done"}
    mark = server.host("esx-01").mark
    assert mark is not None
    assert (mark.opened_ssh, mark.maintenance, mark.reason) == (True, False, "")
    assert tuple(map(str, report.left_behind)) == ("esx-01: its SSH service is still running: not now",)
    server = estate(refused={("stop_service", 1): VCenterError("not now")})
    down(server, opened_ssh=True)
    server.host("esx-01").services["TSM-SSH"] = True
    report, _ = run(server, leave())
    assert (server.host("esx-01").mark, report.left_behind) == (None, ())


def test_a_mark_that_cannot_be_cleared_does_not_say_that_the_host_is_down() -> None:
    server = estate(refused={("set_host_attribute", 1): VCenterError("not now")})
    down(server)
    report, _ = run(server, leave())
    assert statuses(report) == {"leave esx-01": "failed"}
    assert tuple(map(str, report.left_behind)) == (
        "esx-01: out of maintenance mode, but vgpu-cfg's marker on it could not be removed",
    )
    report, _ = run(server, leave())
    assert (statuses(report), server.host("esx-01").mark) == ({"leave esx-01": "not_needed"}, None)
