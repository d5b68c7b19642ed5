"""A VM is started a second time only where its GPU may be of a node that its affinity does not name."""

from __future__ import annotations

import re

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.planning.vms.lookup.affinity import is_covering


def plan_of(count: int) -> str:
    return (
        "version: 1\nname: starts\nvcenter: lab:nvlink-4xa100\nvms:\n- {name: a, template: ubuntu-22.04-efi,"
        f" cpus: 24, memory: 64GiB, gpus: {{profile: grid_a100d-80c, count: {count}}}}}\n"
    )


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_a_vm_that_has_gpus_on_both_nodes_whichever_it_gets_is_right_at_once(
    seed: str, vgpu_cfg: CommandLine
) -> None:
    plan = vgpu_cfg.write("plan.yaml", plan_of(3))
    told = vgpu_cfg.done("plan", plan).out
    assert "nodeAffinity 0,1*" in told
    assert "TOTAL  1 new VM, about 2 tasks\n" in told
    done = vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_GPU_CHOICE="random", VGPU_CFG_LAB_SEED=seed)
    assert re.search(r"DONE in .*  1 created, 1 powered on, 2 tasks", done.out)
    assert "in sync" in vgpu_cfg.done("plan", plan).out


@pytest.mark.parametrize("seed", ["0", "1", "2", "3", "4", "5"])
def test_what_a_second_start_would_take_is_in_the_total(seed: str, vgpu_cfg: CommandLine) -> None:
    text = plan_of(1).replace("lab:nvlink-4xa100", "lab:two-a100").replace("a100d-80c", "a100-40c")
    plan = vgpu_cfg.write("plan.yaml", text.replace("cpus: 24", "cpus: 8"))
    told = vgpu_cfg.done("plan", plan).out
    assert "TOTAL  1 new VM, about 2 tasks, or 5 if 1 VM must restart\n" in told
    done = vgpu_cfg.done("apply", "--yes", plan, VGPU_CFG_LAB_GPU_CHOICE="random", VGPU_CFG_LAB_SEED=seed)
    counted = re.search(r"DONE in .*, (\d+) tasks", done.out)
    assert counted is not None
    starts = len(re.findall(r"power-on \d/8; retrying", done.out + done.err))
    assert int(counted[1]) == 2 + 3 * starts


@pytest.mark.parametrize(
    ("nodes", "possible", "is_settled"),
    [
        ((0, 1), {0, 1}, True),
        ((0, 1), {0}, True),
        ((0, 1), {0, 2}, False),
        ((0, 1), {0, None}, False),
        ((0,), {0}, False),
        ((), {0}, False),
    ],
)
def test_only_an_affinity_to_several_nodes_holds_whatever_comes(
    nodes: tuple[int, ...], possible: set[int | None], is_settled: bool
) -> None:
    assert is_covering(nodes, possible) == is_settled
