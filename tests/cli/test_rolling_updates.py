"""Workers are changed one after the other, and their training is paused on a checkpoint and resumed."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_guest_work import TRAINING, applied, plan
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import VirtualMachine

JOB = Workload("train train.py", "docker", "vgpu-cfg-worker")
SAVE = {"before": "touch save; while [ -e save ]; do sleep 1; done", "timeout": "2m"}


def workers(vgpu_cfg: CommandLine) -> dict[str, VirtualMachine]:
    lab = vgpu_cfg.lab("./e.yaml")
    return {one.name: one for one in lab.state.all(VirtualMachine) if one.name.startswith("w-")}


def trained(vgpu_cfg: CommandLine, **update: Any) -> None:
    """Have a training run on both workers, and write a plan that restarts their containers."""
    applied(vgpu_cfg)
    lab = vgpu_cfg.lab("./e.yaml")
    with lab.transaction():
        for vm in lab.state.all(VirtualMachine):
            if vm.name.startswith("w-"):
                guest_of(vm).workloads = [JOB]
                lab.state.touch(vm)
    write(vgpu_cfg, **update)


def write(vgpu_cfg: CommandLine, size: str = "8GiB", **update: Any) -> None:
    training = TRAINING | {"update": {"checkpoint": SAVE} | update}
    wanted = plan(training=training, defaults={"guest": {"shared_memory": size}})
    vgpu_cfg.write("p.yaml", json.dumps(wanted))


def planted(vgpu_cfg: CommandLine, name: str, word: str, value: str) -> None:
    lab = vgpu_cfg.lab("./e.yaml")
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == name)
        guest_of(vm).faults[word] = value
        lab.state.touch(vm)


def running(vgpu_cfg: CommandLine) -> list[str]:
    return [name for name, vm in workers(vgpu_cfg).items() if guest_of(vm).workloads == [JOB]]


def changes_of(vgpu_cfg: CommandLine) -> dict[str, dict[str, Any]]:
    shown = json.loads(vgpu_cfg("plan", "p.yaml", "--output", "json").out)
    return {one["id"]: one for one in shown["plan"]["changes"]}


def test_the_training_is_paused_and_resumed_around_workers_in_turn(vgpu_cfg: CommandLine) -> None:
    trained(vgpu_cfg)
    shown = vgpu_cfg.done("plan", "p.yaml").told
    assert f"save with `{SAVE['before']}` on every worker (up to 2 min), then pause" in " ".join(
        shown.split()
    )
    assert "training paused on a checkpoint w-01" in shown
    found = changes_of(vgpu_cfg)
    assert "pause training w-01" in found["stage w-02"]["needs"]
    assert "stage w-02" in found["stage w-01"]["needs"]  # training starts from w-01, which is set up last
    assert {*found["resume training w-01"]["after"]} == {"stage w-01", "stage w-02"}
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert running(vgpu_cfg) == ["w-01", "w-02"]
    assert "0 changes" in vgpu_cfg.done("plan", "p.yaml").told
    assert re.search(
        r"TRAINING +since \S+ \S+ UTC, torchrun, 2 ranks: w-\{01..02\}", vgpu_cfg("status", "p.yaml").told
    )


def test_without_update_a_busy_worker_is_left_alone(vgpu_cfg: CommandLine) -> None:
    trained(vgpu_cfg)
    wanted = plan(training=TRAINING, defaults={"guest": {"shared_memory": "8GiB"}})
    vgpu_cfg.write("p.yaml", json.dumps(wanted))
    assert not any("training" in name for name in changes_of(vgpu_cfg))
    assert vgpu_cfg("apply", "p.yaml", "--yes").code == 7


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("answer", "says"), [("fails", "with status 1"), ("late", "not end within 120")])
def test_a_training_that_cannot_save_continues(vgpu_cfg: CommandLine, answer: str, says: str) -> None:
    trained(vgpu_cfg)
    planted(vgpu_cfg, "w-02", "checkpoint", answer)
    ran = vgpu_cfg("apply", "p.yaml", "--yes")
    assert (ran.code, "training was not paused" in ran.told) == (6, True), ran.told
    assert running(vgpu_cfg) == ["w-01", "w-02"]
    planted(vgpu_cfg, "w-02", "checkpoint", "")
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert running(vgpu_cfg) == ["w-01", "w-02"]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_worker_that_fails_holds_the_next_and_the_training_is_resumed(vgpu_cfg: CommandLine) -> None:
    trained(vgpu_cfg)
    planted(vgpu_cfg, "w-02", "root", "ro")
    ran = vgpu_cfg("apply", "p.yaml", "--yes")
    assert ran.code == 6, ran.told
    assert "stage w-01" in {*changes_of(vgpu_cfg)}
    assert running(vgpu_cfg) == ["w-01", "w-02"]


def test_a_paused_training_of_a_broken_run_is_resumed(vgpu_cfg: CommandLine) -> None:
    trained(vgpu_cfg)
    lab = vgpu_cfg.lab("./e.yaml")
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == "w-01")
        vm.extra_config["vgpu_cfg.training"] = "paused"
        lab.state.touch(vm)
    wanted = plan(training=TRAINING)
    vgpu_cfg.write("p.yaml", json.dumps(wanted))
    assert [*changes_of(vgpu_cfg)] == ["resume training w-01"]
    assert "TRAINING paused: w-01 " in vgpu_cfg.done("status", "p.yaml").told
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert "0 changes" in vgpu_cfg.done("plan", "p.yaml").told


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_resume_can_be_left_to_you(vgpu_cfg: CommandLine) -> None:
    trained(vgpu_cfg, checkpoint=SAVE | {"resume": "manual"})
    assert "resume training w-01" not in changes_of(vgpu_cfg)
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert running(vgpu_cfg) == []
    assert "0 changes" in vgpu_cfg.done("plan", "p.yaml").told


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_two_at_a_time(vgpu_cfg: CommandLine) -> None:
    trained(vgpu_cfg, max_unavailable=2)
    found = changes_of(vgpu_cfg)
    assert "pause training w-01" in found["stage w-01"]["needs"]
