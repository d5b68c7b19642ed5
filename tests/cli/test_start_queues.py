"""VMs of two sizes that fill a host's GPUs: started so that none is left without, and told."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

ESTATE = "two-a100"
PLAN = """
version: 1
name: two-sizes
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, folder: training, cpus: 4, memory: 16GiB, numa: off}
vms:
- {name: "half-{1..2}", gpus: grid_a100-20c}
- {name: "quarter-{1..4}", gpus: grid_a100-10c}
"""
ONE_BY_ONE = "one at a time, so that every VM gets a GPU, regardless of which GPUs ESXi assigns"


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "plan.yaml"
    path.write_text(PLAN, encoding="utf-8")
    return path


def running(vgpu_cfg: CommandLine) -> set[str]:
    state = vgpu_cfg.lab(ESTATE).state
    return {vm.name for vm in state.all(VirtualMachine) if vm.is_on}


ALL = {"half-1", "half-2", "quarter-1", "quarter-2", "quarter-3", "quarter-4"}
CHANCES = [("least_loaded", 0), ("lowest", 0), *(("random", seed) for seed in range(4))]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("choice", "seed"), CHANCES)
def test_all_start_whichever_gpu_is_chosen(choice: str, seed: int, plan: Path, vgpu_cfg: CommandLine) -> None:
    chance = {"VGPU_CFG_LAB_GPU_CHOICE": choice, "VGPU_CFG_LAB_SEED": str(seed)}
    vgpu_cfg.done("apply", "--yes", plan, **chance)
    assert running(vgpu_cfg) == ALL
    gpus = [gpu for host in vgpu_cfg.lab(ESTATE).state.all(Host) for gpu in host.gpus]
    assert sorted(len(gpu.uses) for gpu in gpus) == [2, 4]
    assert vgpu_cfg("plan", plan, "--exit-code").code == 0


def test_the_plan_and_the_runbook_say_so(plan: Path, vgpu_cfg: CommandLine) -> None:
    told = " ".join(vgpu_cfg("plan", plan).out.split())
    assert "STARTS half-{1..2}, quarter-{1..4} on esx-a100-01.lab" in told
    assert ONE_BY_ONE in told
    assert "start one VM at a time, and check which GPU each one uses" in vgpu_cfg.done("runbook", plan).out


def test_one_size_says_nothing_of_it(plan: Path, vgpu_cfg: CommandLine) -> None:
    plan.write_text(PLAN.replace("grid_a100-10c", "grid_a100-20c").replace("1..4", "1..2"), encoding="utf-8")
    assert "STARTS" not in vgpu_cfg("plan", plan).out
    assert "one at a time" not in vgpu_cfg.done("runbook", plan).out


def test_a_saved_plan_goes_by_turns_too(plan: Path, vgpu_cfg: CommandLine, tmp_path: Path) -> None:
    saved = tmp_path / "plan.json"
    vgpu_cfg("plan", plan, "-o", saved)
    vgpu_cfg.done("apply", "--yes", saved)
    assert running(vgpu_cfg) == ALL


def test_whoever_could_take_the_last_gpu_of_one_that_failed_waits(plan: Path, vgpu_cfg: CommandLine) -> None:
    broken = [{"method": "CloneVM_Task", "nth": nth, "message": "no"} for nth in (1, 2)]
    vgpu_cfg.script(ESTATE, *broken)
    ran = vgpu_cfg("apply", "--yes", plan)
    assert ran.code == 6
    assert "held back to leave the last GPU for half-1, half-2, which did not start" in " ".join(
        ran.told.split()
    )
    assert len(running(vgpu_cfg)) == 1
    vgpu_cfg.script(ESTATE)
    vgpu_cfg.done("apply", "--yes", plan)
    assert running(vgpu_cfg) == ALL


def test_a_clone_that_fails_leaves_no_vm_waiting_for_its_turn(plan: Path, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": "CloneVM_Task", "nth": 1, "message": "no"})
    ran = vgpu_cfg("apply", "--yes", plan)
    assert ran.code == 6
    assert len(running(vgpu_cfg)) == len(ALL) - 1
    vgpu_cfg.script(ESTATE)
    vgpu_cfg.done("apply", "--yes", plan)
    assert running(vgpu_cfg) == ALL


@pytest.mark.parametrize("only", ["half-*", "quarter-*"])
def test_some_of_the_vms_do_not_wait_for_the_turn_of_the_others(
    only: str, plan: Path, vgpu_cfg: CommandLine
) -> None:
    told = vgpu_cfg("plan", plan, "--only", only).out
    assert f"STARTS {only[:-1]}{{" in " ".join(told.split())
    vgpu_cfg.done("apply", "--yes", "--only", only, plan)
    assert running(vgpu_cfg) == {vm for vm in ALL if vm.startswith(only[:-1])}


def test_one_of_the_vms_has_nobody_to_take_turns_with(plan: Path, vgpu_cfg: CommandLine) -> None:
    assert "STARTS" not in vgpu_cfg("plan", plan, "--only", "half-1").out
