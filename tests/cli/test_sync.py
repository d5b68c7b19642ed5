"""`plan`, `status` and `apply` agree on whether all is as the plan file says, and so do exit codes."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import VirtualMachine

ESTATE = "two-a100"
KEPT = '- {name: "vm-01", gpus: grid_a100-10c}\n'
WITH_GPU = '- {name: "vm-02", gpus: grid_a100-10c}\n'
WITHOUT = '- {name: "vm-02"}\n'
HEAD = """\
version: 1
name: told
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms:
"""


def in_sync(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", HEAD + KEPT + WITH_GPU)


def drift(vgpu_cfg: CommandLine) -> None:
    in_sync(vgpu_cfg)
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == "vm-02")
        vm.power_state = "poweredOff"
        lab.state.touch(vm)


def orphan(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", HEAD + KEPT)


def elsewhere(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", HEAD + KEPT + WITH_GPU.replace("}", ", place: {not_hosts: 'esx-*'}}"))


def template_gone(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("plan.yaml", HEAD + KEPT + WITH_GPU.replace("}", ", template: ubuntu-18.04}"))


@pytest.mark.parametrize(
    ("second", "happens", "code"),
    [
        (WITH_GPU, in_sync, 0),
        (WITH_GPU, drift, 10),
        (WITH_GPU, orphan, 10),
        (WITHOUT, orphan, 10),
        (WITH_GPU, elsewhere, 10),
        (WITH_GPU, template_gone, 10),
    ],
    ids=["in sync", "drift", "orphan with GPU", "orphan without", "elsewhere", "template gone"],
)
def test_exit_codes_and_texts_agree(
    second: str, happens: Callable[[CommandLine], None], code: int, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", HEAD + KEPT + second))
    happens(vgpu_cfg)
    before = vgpu_cfg.look(ESTATE)
    plan = vgpu_cfg("plan", "plan.yaml", "--exit-code")
    status = vgpu_cfg("status", "plan.yaml", "--exit-code")
    assert (plan.code, status.code) == (code, code)
    assert (": in sync, " in plan.told, ", in sync " in f"{status.out.splitlines()[0]} ") == (
        not code,
        not code,
    )
    told = [
        json.loads(vgpu_cfg.done(word, "plan.yaml", "--output", "json").out) for word in ("plan", "status")
    ]
    assert [one["is_in_sync"] for one in told] == [not code, not code]
    if happens is orphan:
        assert "vm-02 is not in the plan file; in sync: 1 VM, 0 changes" in plan.told
        assert "vm-02 is not in the plan file; in sync: 1 VM" in vgpu_cfg.done("apply", "plan.yaml").told
    if happens is elsewhere:
        assert "not at the location in the plan file: vm-02; in sync: 1 VM, 0 changes" in plan.told
        assert "VG333" in status.told
    if happens is template_gone:
        assert "could not be recreated: vm-02; in sync: 1 VM, 0 changes" in plan.told
    if happens is not drift:
        assert vgpu_cfg.look(ESTATE) == before


def test_no_difference_is_told_without_the_option(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", HEAD + KEPT + WITH_GPU))
    orphan(vgpu_cfg)
    vgpu_cfg.done("plan", "plan.yaml")
    vgpu_cfg.done("status", "plan.yaml")
