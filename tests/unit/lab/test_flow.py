"""The main job at the level of operations: cloned, powered on, refused where it must be, destroyed."""

from __future__ import annotations

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.state.inventory import Host, Task, VirtualMachine

CHOICES = ["least_loaded", "lowest", "random"]


@pytest.mark.parametrize("choice", CHOICES)
def test_two_vms_with_a_gpu_each(choice: str) -> None:
    """Two A100, two VMs with a whole one; each affinity follows the GPU that the host chose."""
    rig = Rig("two-a100", gpu_choice=choice, seed=1)
    for name in ("hvd-01", "hvd-02"):
        vm = rig.running(name, "grid_a100-40c", window_gb=128)
        gpu = rig.host().gpu(rig.gpu_of(vm)[0])
        assert gpu is not None
        rig.done(vm, "PowerOffVM_Task")
        pin = [vim.option.OptionValue(key="numa.nodeAffinity", value=str(gpu.numa_node))]
        rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(extraConfig=pin))
        rig.done(vm, "PowerOnVM_Task")
    assert len({rig.gpu_of(rig.vm(name))[0] for name in ("hvd-01", "hvd-02")}) == 2
    for name in ("hvd-01", "hvd-02"):
        rig.done(rig.vm(name), "PowerOffVM_Task")
        rig.done(rig.vm(name), "Destroy_Task")
    assert [vm.name for vm in rig.lab.state.all(VirtualMachine)] == ["ubuntu-22.04-efi"]
    assert all(not gpu.uses for gpu in rig.host().gpus)


@pytest.mark.parametrize("choice", CHOICES)
def test_seven_students_and_no_eighth(choice: str) -> None:
    rig = Rig("mig-a100", gpu_choice=choice)
    del rig.host().gpus[1]
    for number in range(7):
        rig.running(f"stu{number}", "grid_a100-1-5c", memory_mib=16384)
    eighth = rig.clone("stu7", "grid_a100-1-5c", memory_mib=16384)
    assert isinstance(rig.refused(eighth, "PowerOnVM_Task"), vim.fault.InsufficientGraphicsResourcesFault)
    rig.done(rig.vm("stu3"), "PowerOffVM_Task")
    rig.done(eighth, "PowerOnVM_Task")


@pytest.mark.parametrize("choice", CHOICES)
def test_twenty_beside_ten_is_refused(choice: str) -> None:
    rig = Rig("two-a100", gpu_choice=choice)
    del rig.host().gpus[1]
    rig.running("ten", "grid_a100-10c")
    twenty = rig.clone("twenty", "grid_a100-20c")
    assert isinstance(rig.refused(twenty, "PowerOnVM_Task"), vim.fault.InsufficientGraphicsResourcesFault)
    rig.done(rig.vm("ten"), "PowerOffVM_Task")
    rig.done(twenty, "PowerOnVM_Task")


def test_four_tens_share_a_gpu() -> None:
    rig = Rig("two-a100", gpu_choice="lowest")
    for number in range(4):
        rig.running(f"n{number}", "grid_a100-10c", window_gb=128)
    assert [len(gpu.uses) for gpu in rig.find(Host).gpus] == [4, 0]


def test_nothing_ends_in_a_system_error() -> None:
    rig = Rig("hgx-h100")
    rig.running("eight", *["nvidia_h100xm-80c"] * 8, window_gb=2048)
    assert len(rig.gpu_of(rig.vm("eight"))) == 8
    assert {type(task.fault) for task in rig.lab.state.all(Task)} == {type(None)}
