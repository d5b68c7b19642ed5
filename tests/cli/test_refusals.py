"""What does not fit is refused before anything is touched, naming what is in the way; by the lab, too."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from tests.unit.lab.rig import gpu_spec
from tests.unit.lab.wire.client import connect, one

TIME_SLICED = "one-a100"
MIG = "estates/one-mig-a100.yaml"
CASES = [
    pytest.param(MIG, "seven", "eighth", "slice-08", "slice-", id="an eighth 1-5c"),
    pytest.param(TIME_SLICED, "first-40c", "second-40c", "whole-02", "whole-01", id="a second 40c"),
    pytest.param(TIME_SLICED, "small", "large", "large-01", "small-01", id="a 20c beside a 10c"),
]


@pytest.mark.parametrize(("estate", "first", "second", "vm", "in_the_way"), CASES)
@pytest.mark.parametrize("command", [["plan"], ["apply", "--yes"]], ids=lambda words: words[0])
def test_what_does_not_fit_is_refused_and_nothing_is_touched(
    estate: str,
    first: str,
    second: str,
    vm: str,
    in_the_way: str,
    command: list[str],
    vgpu_cfg: CommandLine,
) -> None:
    server = ["--server", f"lab:{estate}"]
    vgpu_cfg.done("apply", "--yes", f"plans/{first}.yaml", *server)
    before = vgpu_cfg.look(estate)
    refused = vgpu_cfg(*command, f"plans/{second}.yaml", *server)
    assert refused.code == 4, refused.told
    assert "ERROR  VG1" in refused.err
    assert f"WHERE  vm {vm}" in refused.err
    assert in_the_way in refused.told
    assert vgpu_cfg.look(estate) == before


@pytest.mark.parametrize(
    ("estate", "first", "profile"),
    [
        (MIG, "seven", "grid_a100-1-5c"),
        (TIME_SLICED, "first-40c", "grid_a100-40c"),
        (TIME_SLICED, "small", "grid_a100-20c"),
    ],
)
def test_the_lab_refuses_the_same_of_a_client_that_asks_directly(
    estate: str, first: str, profile: str, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.done("apply", "--yes", f"plans/{first}.yaml", "--server", f"lab:{estate}")
    lab = vgpu_cfg.lab(estate)
    instance = connect(lab)

    def result_of(task: Any) -> Any:
        lab.run_until_idle()
        return task.info

    cloned = result_of(
        one(instance, vim.VirtualMachine, "ubuntu-22.04-efi").CloneVM_Task(
            folder=one(instance, vim.Folder, "training"),
            name="direct",
            spec=vim.vm.CloneSpec(
                location=vim.vm.RelocateSpec(
                    pool=one(instance, vim.ClusterComputeResource, "gpu").resourcePool
                ),
                config=gpu_spec(profile, memory_mib=16384),
                powerOn=False,
                template=False,
            ),
        )
    )
    assert cloned.error is None
    fault = result_of(cloned.result.PowerOnVM_Task()).error
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)


@pytest.mark.parametrize(
    ("estate", "plan"), [(MIG, "seven"), (TIME_SLICED, "first-40c"), (TIME_SLICED, "large")]
)
def test_the_same_on_a_free_gpu_fits(estate: str, plan: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", f"plans/{plan}.yaml", "--server", f"lab:{estate}")
