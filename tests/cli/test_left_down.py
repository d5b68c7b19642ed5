"""A host that a plan has taken down is never forgotten: each command names it, or gives it back."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_looks_first import BUNDLE, PLAN, estate
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.inventory import Alarm

WORDS = "VG531 e3.lab: in maintenance mode for plan drv"
VMS = "vms: [{name: x-1, template: {scratch: ubuntu64Guest}, cpus: 2, memory: 4GiB, disks: [{size: 4GiB}]}]\n"


@pytest.fixture
def left(vgpu_cfg: CommandLine) -> CommandLine:
    """Let a plan take a host down, and fail there."""
    estate(vgpu_cfg, BUNDLE, BUNDLE)
    vgpu_cfg.script("estate.yaml", {"method": "RebootHost_Task", "message": "no"})
    assert vgpu_cfg("apply", "plan.yaml", "--yes", ESXI_PW="x").code == 6
    vgpu_cfg.script("estate.yaml")
    assert down(vgpu_cfg) == ["e3.lab"]
    return vgpu_cfg


def down(run: CommandLine) -> list[str]:
    return [host.name for host in run.lab("estate.yaml").state.all(Host) if host.in_maintenance]


def kept(run: CommandLine) -> list[str]:
    """Return what the plan has left in vCenter: alarms, and marks of hosts."""
    state = run.lab("estate.yaml").state
    values = [text for one in state.custom_values["values"].values() for text in one.values()]
    marks = [text for text in values if '"plan"' in text]
    return [*marks, *(alarm.name for alarm in state.all(Alarm) if "drv" in alarm.name)]


@pytest.mark.parametrize("words", [("plan",), ("status",)])
def test_the_plans_own_commands_name_the_host_and_the_way_back(
    left: CommandLine, words: tuple[str, ...]
) -> None:
    ran = left(*words, "plan.yaml", ESXI_PW="x")
    assert WORDS in ran.told
    back = "to return the host to service, run `vgpu-cfg uncordon host:e3.lab --restore"
    assert f"{back} --server=lab:estate.yaml`" in ran.told


@pytest.mark.parametrize("words", [("plan",), ("status",)])
def test_a_host_that_has_left_the_plan_file_is_named_too(left: CommandLine, words: tuple[str, ...]) -> None:
    left.write("plan.yaml", PLAN.partition("hosts:")[0] + VMS)
    assert WORDS in left(*words, "plan.yaml", ESXI_PW="x").told


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "words",
    [
        ("destroy", "plan.yaml", "--yes"),
        ("forget", "plan.yaml", "--yes"),
        ("uncordon", "host:e3.lab", "--restore", "--yes", "--server", "lab:estate.yaml"),
    ],
    ids=["destroy", "forget", "uncordon"],
)
@pytest.mark.parametrize("names_it", [True, False], ids=["in the file", "no longer in the file"])
def test_it_is_given_back_with_its_mark_and_alarm(
    left: CommandLine, words: tuple[str, ...], *, names_it: bool
) -> None:
    if not names_it:
        left.write("plan.yaml", PLAN.partition("hosts:")[0] + VMS)
    ran = left.done(*words)
    assert WORDS in ran.told
    assert down(left) == []
    assert kept(left) == []


@pytest.mark.sampled(4)
@pytest.mark.parametrize("command", ["destroy", "forget"])
@pytest.mark.parametrize("only", [(), ("--only", "host:e3.lab")], ids=" ".join)
def test_the_same_command_again_has_nothing_to_do(
    left: CommandLine, command: str, only: tuple[str, ...]
) -> None:
    for _ in range(2):
        left.done(command, "plan.yaml", "--yes", *only)
    assert left(command, "plan.yaml", "--yes", "--only", "host:no-such.lab").code == 4


def test_a_part_of_the_plan_without_the_host_leaves_it_and_names_it(left: CommandLine) -> None:
    ran = left("destroy", "plan.yaml", "--yes", "--only", "x-*")
    assert WORDS in ran.told
    assert down(left) == ["e3.lab"]


def test_a_host_that_nobody_took_down_is_none_of_them(vgpu_cfg: CommandLine) -> None:
    estate(vgpu_cfg, BUNDLE, BUNDLE)
    ran = vgpu_cfg.done("destroy", "plan.yaml", "--yes", "--output", "json")
    assert json.loads(ran.out)["outcomes"] == []
    assert "VG531" not in ran.told


def test_an_alarm_that_cannot_be_removed_once_is_by_the_same_command(left: CommandLine) -> None:
    words = ("uncordon", "host:e3.lab", "--restore", "--yes", "--server", "lab:estate.yaml")
    refused = {"method": "RemoveAlarm", "kind": "call", "fault": "SystemError", "message": "no"}
    left.script("estate.yaml", refused)
    assert left(*words).code == 6
    assert (down(left), len(kept(left))) == ([], 2)
    left.script("estate.yaml")
    left.done(*words)
    assert kept(left) == []
