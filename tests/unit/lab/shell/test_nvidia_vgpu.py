"""nvidia-smi vgpu: types known, types creatable, vGPUs that run."""

from __future__ import annotations

from tests.unit.lab.shell.logged_in import Desk

A100_TYPES = [f"    GRID A100-{size}C" for size in (40, 20, 10, 8, 5, 4)]


def test_types_stand_below_their_gpu(desk: Desk) -> None:
    assert desk.lines("nvidia-smi vgpu -s -i 0") == ["GPU 00000000:21:00.0", *A100_TYPES]
    assert desk.lines("nvidia-smi vgpu -c -i 1") == ["GPU 00000000:E2:00.0", *A100_TYPES]


def test_a_gpu_in_use_creates_one_size_only(desk: Desk) -> None:
    desk.running("one", "grid_a100-10c")
    pci_id = desk.gpu_of(desk.vm("one"))[0]
    assert desk.lines(f"nvidia-smi vgpu -c -i {pci_id}")[1:] == ["    GRID A100-10C"]
    assert desk.lines(f"nvidia-smi vgpu -s -i {pci_id}")[1:] == A100_TYPES


def test_a_gpu_that_is_not_shared_direct_creates_none(desk: Desk) -> None:
    desk.gpu().graphics_type = "shared"
    assert desk.lines("nvidia-smi vgpu -c -i 0") == ["GPU 00000000:21:00.0"]


def test_in_mig_mode_nothing_is_creatable_without_an_instance() -> None:
    desk = Desk("mig-a100")
    assert len(desk.lines("nvidia-smi vgpu -c -i 0")) == 1
    assert "    GRID A100-1-5C" in desk.lines("nvidia-smi vgpu -s -i 0")
    assert "    GRID A100-40C" not in desk.lines("nvidia-smi vgpu -s -i 0")


def test_an_idle_gpu_counts_none(desk: Desk) -> None:
    assert desk.lines("nvidia-smi vgpu -q -i 1")[:2] == [
        "GPU 00000000:E2:00.0",
        "    Active vGPUs                          : 0",
    ]


def test_a_vgpu_is_told_with_its_vm(desk: Desk) -> None:
    vm = desk.running("trainer-01", "grid_a100-10c")
    lines = desk.lines(f"nvidia-smi vgpu -q -i {desk.gpu_of(vm)[0]}")
    assert lines[1] == "    Active vGPUs                          : 1"
    assert "        VM Name                           : trainer-01" in lines
    assert "        vGPU Name                         : GRID A100-10C" in lines
    assert "        GPU Instance ID                   : N/A" in lines
    assert "            Total                         : 10240 MiB" in lines
    assert not any("Placement ID" in line for line in lines)


def test_a_vgpu_of_mixed_size_tells_its_place(desk: Desk) -> None:
    for gpu in desk.esx.gpus:
        gpu.vgpu_mode = "mixedSize"
    vm = desk.running("trainer-01", "grid_a100-20c")
    lines = desk.lines(f"nvidia-smi vgpu -q -i {desk.gpu_of(vm)[0]}")
    assert "        Placement ID                      : 0" in lines


def test_a_vgpu_in_mig_mode_tells_its_instance() -> None:
    desk = Desk("mig-a100")
    vm = desk.running("one", "grid_a100-3-20c", host=desk.esx.name)
    lines = desk.lines(f"nvidia-smi vgpu -q -i {desk.gpu_of(vm)[0]}")
    assert "        GPU Instance ID                   : 1" in lines
