"""Hosts in maintenance mode that no mark explains: who took them there, and what becomes of them."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.colleague import NAME, Colleague
from tests.cli.command_line import CommandLine
from tests.cli.host_watch import MARK, hosts_of, is_tidy, marks_of
from vgpu_cfg.lab.state.tags import set_attribute
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.locks import LockHolder, LockName
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog

ESTATE = "lab:two-hosts-roce"
PLAN = """
version: 1
name: pair
vcenter: lab:two-hosts-roce
hosts:
- names: [esx-roce-01.lab, esx-roce-02.lab]
  gpus: {use: vgpu, scheduler: equal_share}
  disruption: {allow: [maintenance, reboot]}
"""


@pytest.fixture
def lost(vgpu_cfg: CommandLine) -> str:
    """Leave a host in maintenance mode by a run that fails, take its mark away, and name the plan file."""
    plan = str(vgpu_cfg.write("pair.yaml", PLAN))
    fault = {"method": "ExitMaintenanceMode_Task", "kind": "task", "fault": "SystemError", "message": "Busy."}
    vgpu_cfg.script("two-hosts-roce", fault)
    assert vgpu_cfg("apply", "--yes", plan).code == 6
    vgpu_cfg.script("two-hosts-roce")
    lab = vgpu_cfg.lab("two-hosts-roce")
    assert list(marks_of(lab.state)) == ["esx-roce-01.lab"]
    with lab.transaction():
        host = hosts_of(lab.state)["esx-roce-01.lab"]
        set_attribute(lab.state, host, MARK, "")
        lab.state.touch(host)
    return plan


def test_what_a_run_of_the_plan_left_without_a_mark_is_brought_to_its_end(
    vgpu_cfg: CommandLine, lost: str
) -> None:
    told = vgpu_cfg("status", lost).told
    assert re.search(r"set by the plan's run \w+, but vgpu-cfg's marker on the host is missing", told)
    shown = vgpu_cfg.done("plan", lost).told
    assert "put into maintenance mode by an earlier run, but the host's marker is missing; set again" in shown
    vgpu_cfg.done("apply", "--yes", lost)
    assert is_tidy(vgpu_cfg.lab("two-hosts-roce").state)
    assert vgpu_cfg("plan", lost, "--exit-code").code == 0


def test_who_took_a_host_down_by_hand_is_told(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("pair.yaml", PLAN)
    Colleague(vgpu_cfg.lab("two-hosts-roce")).takes_down("esx-roce-02.lab")
    told = vgpu_cfg.done("plan", plan).told
    assert "VG525 esx-roce-02.lab: the host is in maintenance mode (since" in told
    assert f"by {NAME}), but not because of vgpu-cfg; the plan prepares it and leaves" in told


# ---------------------------------------------------------------- which run took it there

AT = datetime(2026, 5, 5, 8, tzinfo=UTC)
"""When an entry was written, by the clock of a machine, which goes otherwise than vCenter's."""
RUN = RunEntry(
    run="6392edd69034",
    at=AT,
    command="apply",
    plan="pair",
    digest="d93f0061",
    account="colleague@vsphere.local",
)
Deed = Callable[[Session, Lab], None]


def passes(seconds: float) -> Deed:
    def wait(_session: Session, lab: Lab) -> None:
        with lab.changed:
            lab.clock.wait(lab.clock.now() + seconds, lab.changed)
        with lab.transaction():
            lab.state.touch()

    return wait


def locks(session: Session, _lab: Lab) -> None:
    holder = LockHolder(run=RUN.run, command="apply", plan="pair", machine="ci-7", since=AT)
    VCenterLocks(session).make(LockName(kind="plan", key="pair"), holder)


def goes_down(_session: Session, lab: Lab) -> None:
    Colleague(lab).takes_down("esx-roce-02.lab")


def leaves(**fields: object) -> Deed:
    def write(session: Session, _lab: Lab) -> None:
        VCenterRunLog(session).write(RUN.model_copy(update=fields).text)

    return write


def ended(seconds: float) -> Deed:
    return leaves(result=RunResult.FAILED, began_at=AT - timedelta(seconds=seconds))


OF_DEAD = leaves(digest="", late_seconds=330)
"""The word that is left 330 s after a run was last heard of, by whoever removes its lock."""


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("deeds", "is_runs"),
    [
        pytest.param([goes_down, passes(300), ended(400)], True, id="a short run that ended"),
        pytest.param([goes_down, passes(300), ended(100)], False, id="one that began later"),
        pytest.param([goes_down, leaves(result=RunResult.DONE)], False, id="an end that tells no beginning"),
        pytest.param([goes_down, passes(300), leaves(late_seconds=330)], True, id="a beginning told later"),
        pytest.param([goes_down, passes(300), leaves(late_seconds=100)], False, id="one told before"),
        pytest.param([leaves(), goes_down], True, id="a beginning of an older version"),
        pytest.param([goes_down, passes(1), leaves()], False, id="one that came after"),
        pytest.param([locks, passes(30), goes_down], True, id="a lock"),
        pytest.param([goes_down, passes(30), locks], False, id="a lock that came after"),
        pytest.param([locks, passes(1000), goes_down], False, id="a lock of one that was dead long since"),
        pytest.param(
            [goes_down, leaves(late_seconds=1e300)], False, id="one that is too late for a calendar"
        ),
        pytest.param([goes_down, passes(1), leaves(late_seconds=-1e300)], False, id="one that is early"),
        pytest.param([goes_down, passes(300), OF_DEAD], True, id="word that was left for a dead run"),
    ],
)
def test_a_host_without_a_mark_is_the_runs_that_went_on_then(
    deeds: list[Deed], is_runs: bool, vgpu_cfg: CommandLine
) -> None:
    plan = vgpu_cfg.write("pair.yaml", PLAN)
    lab = vgpu_cfg.lab("two-hosts-roce")
    with Session(lab, "lab", RUN.account, "lab") as session:
        for does in deeds:
            does(session, lab)
    told = vgpu_cfg.done("plan", plan).told
    assert (
        f"set by the plan's run {RUN.run}, but vgpu-cfg's marker on the host is missing" in told
    ) == is_runs, told
    assert (f"by {NAME}), but not because of vgpu-cfg; the plan prepares it" in told) != is_runs, told
