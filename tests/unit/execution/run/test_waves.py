from __future__ import annotations

from typing import Any

from tests.unit.execution.host_makers import (
    ATS,
    BIOS,
    LIVE,
    by_hand,
    change,
    enter,
    estate,
    in_order,
    leave,
    reboot,
    run,
)
from tests.unit.execution.makers import add_own_vm, power_off, statuses
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.execution import exit_code_of
from vgpu_cfg.model.observed.vm import PowerState


def prepared(name: str, *needs: str, max_down: int = 1, **fields: Any) -> list[Change]:
    """One host from entering to leaving, with a reboot on the way."""
    return in_order(
        enter(name, *needs, max_down=max_down, **fields), change(ATS, name), reboot(name), leave(name)
    )


def three(**fields: Any) -> list[Change]:
    return [one for n in (1, 2, 3) for one in prepared(f"esx-{n:02}", **fields)]


def test_no_more_hosts_are_down_at_once_than_the_plan_allows() -> None:
    for most in (1, 2, 3):
        server = estate(3)
        report, _ = run(server, *three(max_down=most))
        assert set(statuses(report).values()) == {"done"}
        assert server.most_down == most
        assert all(host.runtime["ats"] == "TRUE" and host.boots == 1 for host in server.hosts.values())


def test_hosts_of_another_wave_have_their_own_limit() -> None:
    server = estate(2)
    others = [one.model_copy(update={"wave": "hosts 2"}) for one in prepared("esx-02")]
    run(server, *prepared("esx-01"), *others)
    assert server.most_down == 2


def test_a_host_that_fails_stops_its_wave_and_a_host_that_is_down_is_finished() -> None:
    server = estate(3)
    server.host("esx-01").deaf = {"ats"}
    report, _ = run(server, *three(max_down=2))
    assert {name: status for name, status in statuses(report).items() if "01" not in name} == {
        "enter esx-02": "done",
        "set ats on esx-02": "done",
        "reboot esx-02": "done",
        "leave esx-02": "done",
        "enter esx-03": "skipped",
        "set ats on esx-03": "skipped",
        "reboot esx-03": "skipped",
        "leave esx-03": "skipped",
    }
    assert server.host("esx-01").maintenance
    assert not server.host("esx-02").maintenance
    assert exit_code_of(report) == 6


def test_the_reason_why_a_wave_stopped_stands_at_every_host_that_was_spared() -> None:
    server = estate(3)
    server.host("esx-01").deaf = {"ats"}
    report, _ = run(server, *three())
    messages = {outcome.message for outcome in report.outcomes if "01" not in outcome.change_id}
    (message,) = messages
    assert message.startswith(
        "the wave stopped: esx-01: esx-01 does not have the requested settings: ats is FALSE"
    )
    assert [host.maintenance for host in server.hosts.values()] == [True, False, False]
    assert server.asked("enter_maintenance") == [("enter_maintenance", "esx-01")]


def test_what_needs_no_maintenance_goes_on_after_a_wave_has_stopped() -> None:
    server = estate(2)
    server.host("esx-01").deaf = {"ats"}
    report, _ = run(server, *prepared("esx-01"), change(LIVE, "esx-02"))
    assert statuses(report)["set live on esx-02"] == "done"


def test_a_host_that_waits_for_a_hand_counts_as_down() -> None:
    server = estate(2)
    first = in_order(enter(), by_hand(proves=(BIOS,)), leave())
    report, _ = run(server, *first, *prepared("esx-02"))
    assert statuses(report) == {
        "enter esx-01": "done",
        "by hand esx-01": "skipped",
        "leave esx-01": "skipped",
        "enter esx-02": "skipped",
        "set ats on esx-02": "skipped",
        "reboot esx-02": "skipped",
        "leave esx-02": "skipped",
    }
    assert report.outcomes[-1].message == "the limit on hosts that may be down has been reached: esx-01"
    assert exit_code_of(report) == 7
    server = estate(2)
    report, _ = run(server, *in_order(enter(max_down=2), by_hand(), leave()), *prepared("esx-02", max_down=2))
    assert statuses(report)["leave esx-02"] == "done"


def test_a_host_that_was_down_before_the_run_is_finished_before_another_goes_down() -> None:
    server = estate(2)
    server.host("esx-02").maintenance = True
    server.host("esx-02").set_mark(maintenance=True, reason="sets ats")
    report, events = run(server, *prepared("esx-01"), *prepared("esx-02"))
    assert set(statuses(report).values()) == {"done", "not_needed"}
    assert server.most_down == 1
    ended = [event.change_id for event in events if event.status is not None]
    assert ended.index("leave esx-02") < ended.index("enter esx-01")


def test_a_host_that_the_plan_only_takes_out_counts_until_it_is_out() -> None:
    server = estate(2)
    server.host("esx-01").maintenance = True
    server.host("esx-01").set_mark(maintenance=True)
    report, _ = run(server, *prepared("esx-02"), leave("esx-01"))
    assert set(statuses(report).values()) == {"done"}
    assert server.most_down == 1


def test_a_host_that_somebody_else_holds_down_takes_nobodys_place() -> None:
    server = estate(2)
    server.host("esx-01").maintenance = True
    held = in_order(enter(is_held=True), by_hand(), leave(is_held=True))
    report, _ = run(server, *held, *prepared("esx-02"))
    assert statuses(report)["leave esx-02"] == "done"


def test_own_vms_are_switched_off_only_when_their_host_takes_its_turn() -> None:
    server = estate(2)
    for number in (1, 2):
        add_own_vm(
            server, f"vm-{number}", f"vm-{number}", host_moid=f"host-{number}", power_state=PowerState.ON
        )
    changes: list[Change] = []
    for number in (1, 2):
        off = power_off(f"vm-{number}", f"vm-{number}")
        changes += [off, *prepared(f"esx-{number:02}", off.id)]
    report, events = run(server, *changes)
    assert set(statuses(report).values()) == {"done"}
    ended = [event.change_id for event in events if event.status is not None]
    assert ended.index("leave esx-01") < ended.index("power off vm-2")


def test_own_vms_of_a_host_that_is_spared_keep_running() -> None:
    server = estate(2)
    server.host("esx-01").deaf = {"ats"}
    add_own_vm(server, "vm-2", "vm-2", host_moid="host-2", power_state=PowerState.ON)
    off = power_off("vm-2", "vm-2")
    report, _ = run(server, *prepared("esx-01"), off, *prepared("esx-02", off.id))
    assert statuses(report)[off.id] == "skipped"
    assert server.vm("vm-2").is_on


def test_a_host_whose_vm_does_not_go_off_leaves_its_place() -> None:
    server = estate(2, failures={("power_off_vm", 1): ("InvalidState", "The attempted operation failed.")})
    add_own_vm(server, "vm-1", "vm-1", host_moid="host-1", power_state=PowerState.ON)
    off = power_off("vm-1", "vm-1")
    report, _ = run(server, off, *prepared("esx-01", off.id), *prepared("esx-02"))
    assert statuses(report)["enter esx-01"] == "skipped"
    assert statuses(report)["leave esx-02"] == "done"


def test_canaries_are_plain_needs() -> None:
    server = estate(3)
    server.host("esx-01").stuck = {"ats"}
    rest = [one for n in (2, 3) for one in prepared(f"esx-{n:02}", "leave esx-01", max_down=3)]
    report, _ = run(server, *prepared("esx-01", max_down=3), *rest)
    assert statuses(report)["enter esx-02"] == statuses(report)["enter esx-03"] == "skipped"
    assert server.most_down == 1


def test_a_host_that_waits_to_be_switched_on_counts_in_every_wave() -> None:
    server = estate(2)
    server.host("esx-01").connected = False
    switch_on = by_hand(impact=Impact.HOST_COLD_BOOT)
    report, _ = run(server, switch_on, *prepared("esx-02"))
    assert statuses(report)["enter esx-02"] == "skipped"
    assert exit_code_of(report) == 7
    report, _ = run(
        server, switch_on, *prepared("esx-02"), options={"done_by_hand": frozenset({switch_on.id})}
    )
    assert statuses(report)["leave esx-02"] == "done"
