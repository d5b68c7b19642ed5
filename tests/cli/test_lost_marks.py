"""Hosts in maintenance mode that no mark explains: who took them there, and what becomes of them."""

from __future__ import annotations

import pytest

from tests.cli.colleague import NAME, Colleague
from tests.cli.command_line import CommandLine
from tests.cli.host_watch import MARK, hosts_of, is_tidy, marks_of
from vgpu_cfg.lab.state.attributes import set_attribute

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
    assert "took it there, and the mark is gone" in told
    shown = vgpu_cfg.done("plan", lost).told
    assert "an earlier run took it into maintenance mode, and its mark is gone: it is marked again" in shown
    vgpu_cfg.done("apply", "--yes", lost)
    assert is_tidy(vgpu_cfg.lab("two-hosts-roce").state)
    assert vgpu_cfg("plan", lost, "--exit-code").code == 0


def test_who_took_a_host_down_by_hand_is_told(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("pair.yaml", PLAN)
    Colleague(vgpu_cfg.lab("two-hosts-roce")).takes_down("esx-roce-02.lab")
    told = vgpu_cfg.done("plan", plan).told
    assert "VG525 esx-roce-02.lab: it is in maintenance mode, and not by this tool since" in told
    assert f"by {NAME}: it is prepared and left in it" in told
