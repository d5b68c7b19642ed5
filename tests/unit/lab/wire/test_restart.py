"""vCenter's own restart in the lab: who is refused, for how long, and what is gone and what is not."""

from __future__ import annotations

from typing import Any
from xml.parsers.expat import ExpatError

import pytest
from pyVmomi import vim

from tests.unit.lab.wire.client import connect, one, open_virtual
from vgpu_cfg.errors import NotSent, Unreachable
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.restart import ConnectionRefused, restart
from vgpu_cfg.lab.vcenter import Lab

VM = "ubuntu-22.04-efi"


def later(lab: Lab, seconds: float) -> None:
    assert isinstance(lab.clock, VirtualClock)
    lab.clock.advance(seconds)


def status(lab: Lab) -> int:
    return lab.exchange("GET", "/sdk/vimServiceVersions.xml", {}, b"")[0]


def test_it_refuses_then_its_web_front_answers_then_it_is_there() -> None:
    lab = open_virtual("two-a100")
    restart(lab, away_seconds=60, starting_seconds=30)
    with pytest.raises(NotSent, match="refuses"):
        status(lab)
    later(lab, 61)
    assert status(lab) == 503
    later(lab, 30)
    assert status(lab) == 200


def test_sessions_end_and_moids_stay() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    host = one(instance, vim.HostSystem, "esx-a100-01.lab")
    restart(lab, away_seconds=0)
    with pytest.raises(vim.fault.NotAuthenticated):
        instance.CurrentTime()
    assert one(connect(lab), vim.HostSystem, "esx-a100-01.lab")._moId == host._moId


def change(instance: Any) -> Any:
    return one(instance, vim.VirtualMachine, VM).ReconfigVM_Task(vim.vm.ConfigSpec(annotation="new"))


@pytest.mark.parametrize("forgets_tasks", [False, True])
def test_tasks_run_on_or_are_forgotten_with_what_they_were_at(forgets_tasks: bool) -> None:
    lab = open_virtual("two-a100")
    task = change(connect(lab))
    restart(lab, away_seconds=0, forgets_tasks=forgets_tasks)
    lab.run_until_idle()
    instance = connect(lab)
    known = [each._moId for each in instance.content.taskManager.recentTask]
    assert known == ([] if forgets_tasks else [task._moId])
    assert one(instance, vim.VirtualMachine, VM).config.annotation == ("" if forgets_tasks else "new")


@pytest.mark.parametrize(("kind", "tasks"), [("restart_before", 0), ("restart_after", 1)])
def test_it_restarts_in_place_of_an_answer(kind: Any, tasks: int) -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    vm = one(instance, vim.VirtualMachine, VM)
    lab.faults.add("*", nth=1, kind=kind, seconds=5)
    with pytest.raises(Unreachable):
        vm.UpgradeVM_Task(None)
    assert len(lab.state.tasks) == tasks
    with pytest.raises(ConnectionRefused):
        instance.CurrentTime()


def test_its_web_front_alone_answers_one_call() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    lab.faults.add("CurrentTime", kind="unavailable")
    with pytest.raises(ExpatError):  # the client of these tests takes no 503
        instance.CurrentTime()
    assert instance.CurrentTime()
