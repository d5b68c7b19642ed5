"""`apply --done`: a step that nothing shows is confirmed once; the same command again has nothing to do."""

from __future__ import annotations

import pytest

from tests.cli.command_line import CommandLine

HOST = "esx-a100-01.lab"
STEP = f"by hand {HOST}: bios_sriov"
PLAN = f"""\
version: 1
name: demo
vcenter: lab:two-a100
hosts: [{{names: [{HOST}], bios: {{sriov: true}}}}]
"""


@pytest.fixture
def here(vgpu_cfg: CommandLine) -> CommandLine:
    vgpu_cfg.write("plan.yaml", PLAN)
    return vgpu_cfg


def test_a_step_is_confirmed_by_the_same_command_as_often_as_it_is_typed(here: CommandLine) -> None:
    assert here("apply", "plan.yaml", "--yes").code == 7
    here.done("apply", "plan.yaml", "--yes", "--done", STEP)
    ran = here.done("apply", "plan.yaml", "--yes", "--done", STEP)
    assert "0 changes" in ran.told


@pytest.mark.parametrize(
    "step", ["bios_sriov", f"by hand {HOST}: bios_iommu", "by hand esx-2.lab: bios_sriov"]
)
def test_a_step_that_was_never_confirmed_is_refused(here: CommandLine, step: str) -> None:
    here.done("apply", "plan.yaml", "--yes", "--done", STEP)
    ran = here("apply", "plan.yaml", "--yes", "--done", step)
    assert (ran.code, "the plan has no step" in ran.told) == (2, True)
