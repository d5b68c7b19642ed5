"""A vCenter that restarts in the middle: it is waited for, and what it had begun is found or made again."""

from __future__ import annotations

import signal

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.cli import labs

PLAN = "plans/pair.yaml"
ESTATE = "two-a100"
VMS = {"hvd-01", "hvd-02"}
SHARDS = 12
FIRST, LAST = 3, 74
"""The calls of an apply of `PLAN`, behind the login: what never answered is not waited for."""
AT_EACH = pytest.mark.exhaustive("a vCenter that restarts at every call: tests/cli/test_restarts.py")


def restarts(method: str, kind: str, *, forgets_tasks: bool, nth: int = 1) -> dict[str, object]:
    away = {"seconds": 90, "starting": 30, "forgets_tasks": forgets_tasks}
    return {"method": method, "nth": nth, "kind": kind, **away}


def come_back(vgpu_cfg: CommandLine) -> None:
    """Let the lab's vCenter be there again, and end what it was at."""
    vgpu_cfg.script(ESTATE)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        lab.state.away_until = lab.state.starting_until = 0.0
        lab.state.revision += 1
    lab.run_until_idle()


def see_done(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg.look(ESTATE).vms == VMS
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


@pytest.mark.parametrize("forgets_tasks", [False, True], ids=["runs on", "forgets"])
@pytest.mark.parametrize("method", ["CloneVM_Task", "PowerOnVM_Task", "WaitForUpdatesEx"])
def test_a_run_goes_on_whatever_was_under_way(
    method: str, forgets_tasks: bool, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.script(ESTATE, restarts(method, "restart_after", forgets_tasks=forgets_tasks))
    ran = vgpu_cfg.done("apply", "--yes", PLAN)
    assert "vCenter is not responding" in ran.told
    assert "waiting until" in ran.told
    assert "vCenter is responding again after 2 min" in ran.told
    see_done(vgpu_cfg)


@pytest.mark.parametrize("kind", ["restart_before", "restart_after"])
def test_a_lock_that_was_being_made_is_the_runs_own(kind: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, restarts("CreateAlarm", kind, forgets_tasks=True))
    assert "vCenter is responding again" in vgpu_cfg.done("apply", "--yes", PLAN).told
    see_done(vgpu_cfg)


@AT_EACH
@pytest.mark.parametrize("shard", range(SHARDS))
@pytest.mark.parametrize(
    ("kind", "forgets_tasks"), [("restart_before", True), ("restart_after", True), ("restart_after", False)]
)
def test_it_may_restart_at_any_call(
    shard: int, kind: str, forgets_tasks: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for nth in range(FIRST + shard, LAST + 1, SHARDS):
        with pytest.MonkeyPatch.context() as patch:
            vgpu_cfg = CommandLine(tmp_path_factory.mktemp("work"), patch)
            vgpu_cfg.script(ESTATE, restarts("*", kind, forgets_tasks=forgets_tasks, nth=nth))
            ran = vgpu_cfg("apply", "--yes", PLAN)
            come_back(vgpu_cfg)
            if ran.code:
                vgpu_cfg.done("apply", "--yes", PLAN)
            see_done(vgpu_cfg)


def test_who_only_reads_waits_too(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, restarts("RetrievePropertiesEx", "restart_before", forgets_tasks=False, nth=2))
    ran = vgpu_cfg.done("plan", PLAN)
    assert "vCenter is not responding" in ran.err
    assert "vCenter is responding again" in ran.err
    assert "TOTAL  2 new VMs" in ran.out


def test_one_that_is_away_from_the_start_is_not_waited_for(vgpu_cfg: CommandLine) -> None:
    said = vgpu_cfg.done("lab", "restart", ESTATE, "--away", "90", "--forget-tasks").out
    assert said == (
        "lab:two-a100: vCenter is unreachable for 90 s, then starting for 30 s; its tasks are lost\n"
    )
    ran = vgpu_cfg("plan", PLAN)
    assert ran.code == 5
    assert "refuses connections" in ran.told
    assert "waiting" not in ran.told


def test_one_that_does_not_come_back_in_time_ends_the_run_and_the_next_mends_it(
    vgpu_cfg: CommandLine,
) -> None:
    vgpu_cfg.script(ESTATE, {"method": "CloneVM_Task", "nth": 2, "kind": "restart_after", "seconds": 100_000})
    ran = vgpu_cfg("apply", "--yes", PLAN, VGPU_CFG_OUTAGE_SECONDS="300")
    assert ran.code == 6
    assert "it is unknown whether vCenter received the request" in ran.told
    assert ran.told.count("waiting until") == 1
    come_back(vgpu_cfg)
    vgpu_cfg.done("apply", "--yes", PLAN)
    see_done(vgpu_cfg)


def test_ctrl_c_ends_the_wait(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def pause(_self: object, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(labs.LabRunClock, "pause", pause)
    vgpu_cfg.script(ESTATE, {"method": "CloneVM_Task", "nth": 2, "kind": "restart_after", "seconds": 100_000})
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 130, ran.told
    assert "waiting until" in ran.told
    assert len(pauses) < 15
    come_back(vgpu_cfg)
    monkeypatch.undo()


def test_a_web_front_that_answers_alone_for_a_moment_is_no_news(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": "RetrievePropertiesEx", "nth": 3, "kind": "unavailable"})
    ran = vgpu_cfg.done("plan", PLAN)
    assert "does not respond" not in ran.told
