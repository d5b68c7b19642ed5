"""Work that runs in a guest is shown, asked for, and not ended without an approval."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import VirtualMachine

IMAGE = "nvcr.io/nvidia/pytorch:25.02-py3"
MIRROR = {"registry_mirrors": {"docker.io": "https://mirror.example.com"}}
ESTATE = {
    "about": "two hosts that train",
    "templates": [
        {"name": "ubuntu", "guest": {"driver": "580.95.05", "runtimes": ["docker"], "toolkit": True}}
    ],
    "clusters": [{"name": "gpu", "hosts": [{"names": ["e1.lab", "e2.lab"], "gpus": [{"board": "A100"}]}]}],
    "internet": {"registries": {"nvcr.io": {"images": {IMAGE.partition("/")[2]: {"torch": True}}}}},
}


def plan(**more: Any) -> dict[str, Any]:
    row = {
        "name": "w-{01..02}",
        "template": "ubuntu",
        "memory": "64GiB",
        "gpus": "grid_a100-40c",
        "place": {"spread": "hosts"},
        "nics": [{"network": "vm-network", "ip": "pool"}],
        "disks": [{"grow": "100GiB"}],
        "guest": {},
    }
    network = {"name": "vm-network", "subnet": "10.5.0.0/24", "pool": "10.5.0.10-10.5.0.20"}
    return {
        "version": 1,
        "name": "demo",
        "vcenter": "lab:./e.yaml",
        "networks": [network],
        "vms": [row],
    } | more


def applied(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("e.yaml", json.dumps(ESTATE))
    vgpu_cfg.write("p.yaml", json.dumps(plan(training=TRAINING)))
    vgpu_cfg.done("apply", "p.yaml", "--yes")


TRAINING = {"framework": "torchrun", "image": IMAGE, "workers": "w-*"}


def working(vgpu_cfg: CommandLine, *work: Workload) -> None:
    """Let work run in w-01."""
    lab = vgpu_cfg.lab("./e.yaml")
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == "w-01")
        guest_of(vm).workloads = list(work)
        lab.state.touch(vm)


def work_in(vgpu_cfg: CommandLine) -> list[str]:
    lab = vgpu_cfg.lab("./e.yaml")
    (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == "w-01")
    return [one.name for one in guest_of(vm).workloads]


TRAIN_PY = Workload("train.py", "docker", "mine")
JOB = Workload("rank", "docker", "vgpu-cfg-worker")
CHANGES = {
    "a registry mirror": (plan(training=TRAINING, site=MIRROR), "containers (site)", TRAIN_PY),
    "shared memory": (
        plan(training=TRAINING, defaults={"guest": {"shared_memory": "8GiB"}}),
        "the worker's container (worker)",
        JOB,
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", CHANGES)
def test_a_guest_at_work_is_held_back_and_the_others_go_on(vgpu_cfg: CommandLine, name: str) -> None:
    wanted, says, work = CHANGES[name]
    applied(vgpu_cfg)
    vgpu_cfg.write("p.yaml", json.dumps(wanted))
    working(vgpu_cfg, work)
    shown = vgpu_cfg.done("plan", "p.yaml").told
    assert "running work ended w-{01..02} (2 VMs of this plan" in shown
    assert says in shown
    ran = vgpu_cfg("apply", "p.yaml", "--yes")
    assert ran.code == 7, ran.told
    assert "programs are running in the guest" in ran.told
    assert "--allow training" in ran.told
    assert work_in(vgpu_cfg) == [work.name]
    after = vgpu_cfg.done("plan", "p.yaml").told
    assert "w-02" not in after.split("DISRUPTION")[1].split("FINDINGS")[0]
    vgpu_cfg.done("apply", "p.yaml", "--yes", "--allow", "training")
    assert work_in(vgpu_cfg) == []
    assert "0 changes" in vgpu_cfg.done("plan", "p.yaml").told


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_an_idle_guest_needs_no_approval(vgpu_cfg: CommandLine) -> None:
    applied(vgpu_cfg)
    vgpu_cfg.write("p.yaml", json.dumps(plan(training=TRAINING, site=MIRROR)))
    working(vgpu_cfg, Workload("sshd", uses_gpu=False))
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert "0 changes" in vgpu_cfg.done("plan", "p.yaml").told


def test_a_module_that_ends_nothing_disturbs_nobody(vgpu_cfg: CommandLine) -> None:
    applied(vgpu_cfg)
    vgpu_cfg.write("p.yaml", json.dumps(plan(training=TRAINING | {"environment": {"NCCL_DEBUG": "INFO"}})))
    working(vgpu_cfg, TRAIN_PY)
    assert "DISRUPTION none" in vgpu_cfg.done("plan", "p.yaml").told
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert work_in(vgpu_cfg) == ["train.py"]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_the_plan_file_approves_as_the_option_does(vgpu_cfg: CommandLine) -> None:
    applied(vgpu_cfg)
    vgpu_cfg.write("p.yaml", json.dumps(plan(training=TRAINING, site=MIRROR, allow=["training"])))
    working(vgpu_cfg, TRAIN_PY)
    vgpu_cfg.done("apply", "p.yaml", "--yes")
    assert work_in(vgpu_cfg) == []


def test_a_worker_joins_without_disturbing_those_at_work(vgpu_cfg: CommandLine) -> None:
    applied(vgpu_cfg)
    working(vgpu_cfg, JOB, TRAIN_PY)
    (row,) = plan()["vms"]
    more = [row, row | {"name": "w-03", "gpus": "grid_a100-40c", "place": {}}]
    vgpu_cfg.write("p.yaml", json.dumps(plan(training=TRAINING, vms=more)))
    shown = vgpu_cfg("plan", "p.yaml").told
    assert "running work ended" not in shown
