from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.fake_host import FakeHost
from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_vcenter import START
from tests.unit.execution.host_makers import (
    ATS,
    FIRMWARE,
    MIG,
    NVIDIA,
    FakePower,
    by_hand,
    change,
    cold_boot,
    enter,
    estate,
    in_order,
    leave,
    only,
    reboot,
    run,
    shut_down,
    tools_for,
)
from tests.unit.execution.makers import statuses
from vgpu_cfg.errors import BmcError
from vgpu_cfg.execution import exit_code_of
from vgpu_cfg.model.observed.host_facts import EstateFacts, FactGroup


def prepared(**mark: Any) -> FakeHosts:
    """Make an estate whose one host is down, with `ats` written and waiting."""
    server = estate()
    host = server.host("esx-01")
    host.maintenance = True
    host.configured["ats"] = "TRUE"
    host.set_mark(**{"maintenance": True, "reason": "sets ats", "waiting": {"ats": host.boot_time}} | mark)
    return server


# ------------------------------------------------------------- reboot


def test_a_reboot_is_over_when_the_host_answers_with_another_boot_time() -> None:
    server = prepared()
    report, _ = run(server, reboot())
    outcome = only(report)
    assert statuses(report) == {"reboot esx-01": "done"}
    assert outcome.started_at is not None
    assert outcome.ended_at is not None
    # It is away for 300 seconds, and looked at every 20 to 30.
    assert 300 <= (outcome.ended_at - outcome.started_at).total_seconds() <= 340
    assert (outcome.readings[0].configured, outcome.readings[0].runtime) == ("TRUE", "TRUE")
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.waiting == {}
    assert server.host("esx-01").boots == 1


def test_what_is_in_force_already_needs_no_reboot() -> None:
    server = prepared()
    server.host("esx-01").runtime["ats"] = "TRUE"
    report, _ = run(server, reboot())
    assert statuses(report) == {"reboot esx-01": "not_needed"}
    assert server.asked("reboot_host") == []


def test_a_host_that_has_booted_since_the_settings_were_written_is_not_rebooted_again() -> None:
    server = prepared(waiting={"nvidia": "2026-01-01T00:00:00Z"})
    server.host("esx-01").configured["nvidia"] = "NVreg=1"
    report, _ = run(server, reboot(settles=(NVIDIA,)))
    assert statuses(report) == {"reboot esx-01": "not_needed"}
    server = prepared(waiting={"nvidia": server.host("esx-01").boot_time})
    server.host("esx-01").configured["nvidia"] = "NVreg=1"
    report, _ = run(server, reboot(settles=(NVIDIA,)))
    assert statuses(report) == {"reboot esx-01": "done"}


def test_a_reboot_under_way_from_a_run_that_was_killed_is_waited_for_and_not_begun_again() -> None:
    server = prepared()
    host = server.host("esx-01")
    host.connected = False
    host.comes_back_at = server.time + timedelta(minutes=20)
    report, _ = run(server, reboot())
    assert set(statuses(report).values()) <= {"done", "not_needed"}
    assert server.asked("reboot_host") == []
    assert host.runtime["ats"] == "TRUE"


def test_without_a_boot_time_a_host_is_back_when_it_has_been_away() -> None:
    server = prepared(waiting={"ats": None})
    server.host("esx-01").boot_time = None
    report, _ = run(server, reboot())
    assert statuses(report) == {"reboot esx-01": "done"}
    assert server.host("esx-01").boots == 1


def test_the_mark_says_that_a_host_reboots_for_as_long_as_it_does() -> None:
    server = prepared()
    run(server, reboot())
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.restart == ""
    server = prepared()
    server.never_back = True
    run(server, reboot())
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.restart == "reboot"


def test_the_mark_says_that_a_host_was_shut_down() -> None:
    server = prepared()
    run(server, shut_down())
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.restart == "shutdown"


def test_a_host_that_does_not_come_back_is_left_down_with_its_reason() -> None:
    server = prepared()
    server.never_back = True
    report, _ = run(server, reboot())
    assert (
        "esx-01 is not back online 45 min after the reboot started, so it remains in maintenance mode"
        in only(report).message
    )
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.reason.startswith("reboot esx-01: esx-01 is not back")
    assert tuple(map(str, report.left_behind)) == (f"esx-01: in maintenance mode: {mark.reason}",)


def test_a_value_that_a_reboot_did_not_bring_is_pending_and_asks_for_a_cold_boot() -> None:
    server = prepared()
    server.host("esx-01").stuck = {"ats"}
    report, _ = run(server, reboot())
    assert only(report).message == "rebooting esx-01 did not activate ats; a cold boot is required"
    assert report.waiting_for == ("reboot esx-01",)
    assert exit_code_of(report) == 7
    (reading,) = only(report).readings
    assert (reading.configured, reading.runtime, reading.waits_for) == ("TRUE", "FALSE", "cold boot")
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.waiting.keys() == {"ats"}
    assert mark.waiting["ats"] != server.host("esx-01").boot_time


def test_a_value_that_is_lost_by_the_reboot_is_not_called_pending() -> None:
    server = prepared()
    server.host("esx-01").configured["mig"] = "off"
    report, _ = run(server, reboot(settles=(ATS, MIG)))
    assert "mig is off, not on" in only(report).message
    assert "pending" not in only(report).message


def test_what_is_not_told_before_the_reboot_must_be_told_after_it() -> None:
    server = prepared()
    server.host("esx-01").silent = {"ats"}
    report, _ = run(server, reboot())
    assert statuses(report) == {"reboot esx-01": "done"}
    assert only(report).readings[0].runtime == "TRUE"


@pytest.mark.parametrize("lost", ["mode", "mark"])
def test_a_host_that_is_not_down_under_this_plans_mark_is_never_rebooted(lost: str) -> None:
    server = prepared()
    if lost == "mode":
        server.host("esx-01").maintenance = False
    else:
        server.host("esx-01").attributes.clear()
    report, _ = run(server, reboot(), shut_down())
    words = "is not in maintenance mode" if lost == "mode" else "no longer has this plan's marker"
    assert all(f"esx-01 {words}, so it was not restarted" in outcome.message for outcome in report.outcomes)
    assert server.asked("reboot_host", "shut_down_host") == []


def test_the_shell_is_opened_again_after_a_reboot_and_closed_at_the_end() -> None:
    server = estate()
    changes = in_order(enter(), change(MIG), reboot(settles=(MIG,)), leave(settles=(MIG,)))
    report, _ = run(server, *changes)
    assert set(statuses(report).values()) == {"done"}
    host = server.host("esx-01")
    assert host.logins == 2
    assert not host.services["TSM-SSH"]
    assert (host.mark, host.runtime["mig"]) == (None, "on")
    assert len(server.asked("start_service")) == 2


def test_a_refused_reboot_fails_in_vcenters_words() -> None:
    server = prepared()
    server.failures = {("reboot_host task", 1): ("InvalidState", "The operation is not allowed.")}
    report, _ = run(server, reboot())
    assert "The operation is not allowed." in only(report).message


def test_a_reboot_that_a_killed_run_has_told_vcenter_of_is_waited_for() -> None:
    server = prepared()
    server.reboot_host("host-1")
    report, _ = run(server, reboot())
    assert statuses(report) == {"reboot esx-01": "done"}
    assert server.host("esx-01").boots == 1
    server = prepared()
    server.shut_down_host("host-1")
    report, _ = run(server, shut_down())
    assert statuses(report) == {"shut down esx-01": "done"}


def test_a_host_that_answers_before_it_tells_all_is_not_back_yet() -> None:
    server = prepared()
    boot = server._boot

    def boot_slowly(host: FakeHost, keys: Iterable[str]) -> None:
        boot(host, keys)
        host.unread = "vCenter does not report the host's services"

    def read_facts(host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        if server.time > START + timedelta(minutes=8):
            server.host("esx-01").unread = ""
        return read(host_moids, groups)

    read = server.read_facts
    server._boot, server.read_facts = boot_slowly, read_facts  # type: ignore[method-assign]  # bent for this test
    report, _ = run(server, reboot())
    assert statuses(report) == {"reboot esx-01": "done"}
    assert server.time > START + timedelta(minutes=8)


def test_a_stop_does_not_wait_for_a_reboot_and_names_the_host() -> None:
    server = prepared()
    report, _ = run(server, reboot(), stop=lambda: bool(server.asked("reboot_host")))
    assert report.is_interrupted
    assert tuple(map(str, report.left_behind)) == ("esx-01: in maintenance mode: sets ats",)


def test_a_run_that_ends_amid_a_reboot_stops_no_service_of_a_host_that_is_away() -> None:
    server = estate()
    changes = in_order(enter(), change(MIG), reboot(settles=(MIG,)), leave(settles=(MIG,)))
    report, _ = run(server, *changes, stop=lambda: bool(server.asked("reboot_host")))
    assert server.asked("stop_service") == []
    assert tuple(map(str, report.left_behind)) == ("esx-01: in maintenance mode: sets ats",)
    mark = server.host("esx-01").mark
    assert mark is not None
    assert mark.opened_ssh
    server.time += timedelta(hours=1)
    report, _ = run(server, *changes)
    assert (server.host("esx-01").mark, server.host("esx-01").services["TSM-SSH"]) == (None, False)


# ------------------------------------------------------------- cold boot


def cold(**manual: Any) -> list[Any]:
    step = by_hand(proves=(FIRMWARE,), **manual)
    return in_order(enter(), change(FIRMWARE), shut_down(), step, leave(settles=(FIRMWARE,)))


def test_a_host_is_shut_down_and_the_run_waits_for_a_hand_and_then_goes_on() -> None:
    server = estate()
    report, _ = run(server, *cold())
    assert statuses(report) == {
        "enter esx-01": "done",
        "set firmware on esx-01": "done",
        "shut down esx-01": "done",
        "by hand esx-01": "skipped",
        "leave esx-01": "skipped",
    }
    host = server.hosts["host-1"]
    assert not host.connected
    assert (report.waiting_for, exit_code_of(report)) == (("by hand esx-01",), 7)
    reason = "switch it on"
    assert tuple(map(str, report.left_behind)) == (f"esx-01: in maintenance mode: {reason}",)
    assert host.mark is not None
    assert host.mark.reason == reason
    again, _ = run(server, *cold())
    assert statuses(again)["shut down esx-01"] == "skipped"
    server.switch_on("esx-01")
    report, _ = run(server, *cold())
    assert statuses(report) == {
        "enter esx-01": "not_needed",
        "set firmware on esx-01": "not_needed",
        "shut down esx-01": "not_needed",
        "by hand esx-01": "not_needed",
        "leave esx-01": "done",
    }
    assert (server.host("esx-01").mark, host.maintenance, host.runtime["firmware"]) == (None, False, "True")
    assert len(server.asked("shut_down_host")) == 1


def test_a_host_that_is_down_already_is_not_shut_down_again() -> None:
    server = prepared()
    server.host("esx-01").connected = False
    report, _ = run(server, shut_down())
    assert statuses(report) == {"shut down esx-01": "not_needed"}


def test_a_host_that_only_rebooted_since_is_shut_down_all_the_same() -> None:
    server = prepared(waiting={"firmware": "2026-01-01T00:00:00Z"})
    server.host("esx-01").configured["firmware"] = "True"
    report, _ = run(server, *in_order(shut_down(), by_hand(proves=(FIRMWARE,))))
    assert statuses(report)["shut down esx-01"] == "done"


def test_a_host_that_does_not_go_down_is_told() -> None:
    server = prepared()
    server.never_back = True
    report, _ = run(server, shut_down())
    assert "is still responding 45 min after the shutdown request" in only(report).message


def test_a_step_that_was_acknowledged_spares_the_host_another_shutdown() -> None:
    server = prepared()
    step = by_hand(text="switch SR-IOV on")
    options = {"done_by_hand": frozenset({step.id})}
    report, _ = run(server, *in_order(shut_down(), step), options=options)
    assert set(statuses(report).values()) == {"not_needed"}
    report, _ = run(server, *in_order(shut_down(), step))
    assert set(statuses(report).values()) == {"not_needed"}
    assert server.asked("shut_down_host") == []


# --------------------------------------------------------- cold boot by a BMC


def boots_cold(server: FakeHosts, power: FakePower) -> Any:
    server.host("esx-01").configured["firmware"] = "True"
    return run(server, cold_boot(), tools=tools_for(server, powers=power))[0]


def test_a_bmc_switches_a_host_on_once_it_is_off_and_the_values_are_read_back() -> None:
    server = prepared(waiting={"firmware": "2026-01-01T00:00:00Z"})
    power = FakePower(server)
    report = boots_cold(server, power)
    assert statuses(report) == {"cold boot esx-01": "done"}
    assert (power.pressed, server.host("esx-01").boots) == (1, 1)
    assert only(report).readings[0].runtime == "True"
    assert exit_code_of(report) == 0
    mark = server.host("esx-01").mark
    assert mark is not None
    assert (mark.restart, mark.waiting) == ("", {})


def test_what_holds_already_needs_no_cold_boot() -> None:
    server = prepared()
    server.host("esx-01").runtime["firmware"] = "True"
    power = FakePower(server)
    assert statuses(boots_cold(server, power)) == {"cold boot esx-01": "not_needed"}
    assert (power.pressed, server.asked("shut_down_host")) == (0, [])


def test_a_bmc_that_does_not_answer_leaves_the_host_up() -> None:
    server = prepared()
    power = FakePower(server, BmcError("no", subject="bmc-esx-01", remedy="see it"))
    assert statuses(boots_cold(server, power)) == {"cold boot esx-01": "failed"}
    assert server.asked("shut_down_host") == []


def test_a_host_that_an_earlier_run_shut_down_is_switched_on() -> None:
    server = prepared(restart="shutdown")
    server.host("esx-01").connected = False
    power = FakePower(server)
    assert statuses(boots_cold(server, power)) == {"cold boot esx-01": "done"}
    assert (power.pressed, server.asked("shut_down_host")) == (1, [])


def test_a_host_that_does_not_go_off_is_not_switched_on() -> None:
    server = prepared()
    server.never_back = True
    power = FakePower(server)
    assert statuses(boots_cold(server, power)) == {"cold boot esx-01": "failed"}
    assert power.pressed == 0
