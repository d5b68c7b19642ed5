"""A run that is killed after any call it makes, and run again: the hosts end in the same state."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.fake_hosts import FakeHosts
from tests.fakes.fake_locks import undisputed
from tests.unit.execution.host_makers import (
    ATS,
    FIRMWARE,
    GRAPHICS,
    LIVE,
    MIG,
    NVIDIA,
    by_hand,
    change,
    enter,
    estate,
    in_order,
    leave,
    reboot,
    restart,
    run,
    shut_down,
    tools_for,
)
from tests.unit.execution.makers import plan_of, statuses
from vgpu_cfg.changes.change import Change
from vgpu_cfg.execution import Run

EVERYTHING = (LIVE, ATS, NVIDIA, MIG, GRAPHICS)
WANTED = {setting.setting: setting.value for setting in EVERYTHING}


class Killed(BaseException):
    """The process is gone: whatever it still tries to do does not happen."""


class Mortal:
    """A fake, seen by a process that is killed once it has made so many calls of it."""

    def __init__(self, behind: Any, life: list[int]) -> None:
        self._behind = behind
        self._life = life

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._behind, name)
        if not callable(found) or name == "now":
            return found

        def call(*args: Any, **fields: Any) -> Any:
            if self._life[0] == 0:
                raise Killed
            self._life[0] -= 1
            answer = found(*args, **fields)
            if self._life[0] == 0:
                raise Killed
            return Mortal(answer, self._life) if name == "connect" else answer

        return call


def one_host() -> list[Change]:
    return in_order(
        enter(),
        *(change(setting) for setting in EVERYTHING),
        reboot(settles=(ATS, NVIDIA, MIG)),
        restart(),
        leave(settles=EVERYTHING),
    )


def run_until(server: FakeHosts, changes: list[Change], calls: int) -> bool:
    """Run changes, killed after so many calls; whether it came to its end before that."""
    mortal: Any = Mortal(server, [calls])
    try:
        Run(
            plan_of(*changes), mortal, mortal, mortal, locks=undisputed(), hosts=tools_for(mortal)
        ).carry_out()
    except Killed:
        return False
    return True


def count_calls(changes: list[Change]) -> int:
    life = [100_000]
    mortal: Any = Mortal(estate(), life)
    Run(plan_of(*changes), mortal, mortal, mortal, locks=undisputed(), hosts=tools_for(mortal)).carry_out()
    return 100_000 - life[0]


def assert_whole(server: FakeHosts) -> None:
    host = server.hosts["host-1"]
    assert {key: host.runtime[key] for key in WANTED} == WANTED
    assert (host.maintenance, host.attributes, host.alarms) == (False, {}, {})
    assert not host.services["TSM-SSH"]


def assert_explained(server: FakeHosts) -> None:
    """Whatever moment a run was killed at, a host that is down says whose it is and why."""
    host = server.hosts["host-1"]
    if host.maintenance or host.services["TSM-SSH"]:
        mark = host.mark
        assert mark is not None
        assert not host.maintenance or (mark.maintenance and mark.reason)
        assert not host.services["TSM-SSH"] or mark.opened_ssh


def settle(server: FakeHosts, seconds: float) -> None:
    """Let vCenter end what it was told to do, though nobody waits for it."""
    server.time += timedelta(seconds=seconds)
    for task in server._tasks.values():
        if task.due <= server.time:
            server._end(task)
    server.time += timedelta(seconds=seconds)
    server._tick()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seconds", [0, 15, 3600])
def test_killed_after_any_call_and_run_again_it_ends_in_the_same_state(seconds: float) -> None:
    changes = one_host()
    for calls in range(1, count_calls(changes)):
        server = estate()
        assert not run_until(server, changes, calls)
        settle(server, seconds)
        assert_explained(server)
        report, _ = run(server, *changes)
        assert set(statuses(report).values()) <= {"done", "not_needed"}, (calls, report)
        assert_whole(server)
        assert report.left_behind == ()


def test_killed_twice_it_still_ends_in_the_same_state() -> None:
    changes = one_host()
    calls = count_calls(changes)
    for first in range(1, calls, 11):
        for second in range(1, calls, 17):
            server = estate()
            run_until(server, changes, first)
            settle(server, 3600)
            run_until(server, changes, second)
            settle(server, 3600)
            assert_explained(server)
            report, _ = run(server, *changes)
            assert set(statuses(report).values()) <= {"done", "not_needed"}, (first, second, report)
            assert_whole(server)


def test_a_cold_boot_that_is_killed_at_any_call_asks_for_the_same_hand() -> None:
    changes = in_order(
        enter(), change(FIRMWARE), shut_down(), by_hand(proves=(FIRMWARE,)), leave(settles=(FIRMWARE,))
    )
    calls = 0
    while True:
        calls += 1
        server = estate()
        is_over = run_until(server, changes, calls)
        settle(server, 3600)
        assert_explained(server)
        # Of a host that it has shut down the planner asks for nothing but the hand.
        todo: list[Change] = changes if server.hosts["host-1"].connected else [by_hand()]
        report, _ = run(server, *todo)
        assert report.waiting_for == ("by hand esx-01",), (calls, report)
        assert not server.hosts["host-1"].connected
        server.switch_on("esx-01")
        report, _ = run(server, *changes)
        assert set(statuses(report).values()) <= {"done", "not_needed"}, (calls, report)
        host = server.hosts["host-1"]
        assert (host.runtime["firmware"], host.maintenance, host.attributes) == ("True", False, {})
        assert not host.services["TSM-SSH"]
        if is_over:
            break


def test_a_second_run_of_what_is_done_changes_nothing() -> None:
    server = estate()
    settings = [change(setting) for setting in EVERYTHING]
    run(server, *one_host())
    before = len(server.asked())
    report, _ = run(server, *in_order(*settings, reboot(settles=(ATS, NVIDIA, MIG)), restart(), leave()))
    assert set(statuses(report).values()) == {"not_needed"}
    told = {method for method, _ in server.asked()[before:]}
    assert told <= {"set_host_attribute", "start_service", "stop_service"}  # the shell is opened to read
    assert server.host("esx-01").boots == 1
