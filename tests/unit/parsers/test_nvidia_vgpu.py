from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.nvidia_vgpu import parse_verbose_types, parse_vgpu_types, parse_vgpus


def test_types_by_gpu() -> None:
    assert parse_vgpu_types(printed("vgpu-s-two-gpus.txt")) == {
        "0000:36:00.0": ("NVIDIA A100-4C", "NVIDIA A100-40C"),
        "0000:83:00.0": ("GRID M60-2Q",),
    }


def test_a_gpu_that_can_create_none_has_none() -> None:
    assert parse_vgpu_types("GPU 00000000:36:00.0\n") == {"0000:36:00.0": ()}


def test_a_type_in_detail() -> None:
    (found,) = parse_verbose_types(printed("vgpu-s-v-m60.txt"))["0000:40:00.0"]
    assert (found.type_id, found.name, found.vgpu_class) == (12, "GRID M60-0Q", "Quadro")
    assert (found.max_instances, found.max_instances_per_vm, found.memory_mib) == (16, 1, 512)
    assert (found.gpu_instance_profile_id, found.is_multi_vgpu_exclusive) == (None, False)
    assert (found.placement_size, found.supported_placements) == (None, ())


def test_placements_in_mixed_size_mode() -> None:
    small, large = parse_verbose_types(printed("vgpu-c-v-mixed-size.txt"))["0000:41:00.0"]
    assert (small.placement_size, small.supported_placements) == (8, (0, 8, 16, 24, 32, 40))
    assert small.creatable_placements == (8, 40)
    assert (large.creatable_placements, large.supported_placements) == ((), (0, 24))


def test_running_vgpus_by_gpu() -> None:
    found = parse_vgpus(printed("vgpu-q-t4.txt"))
    (vgpu,) = found["0000:c1:00.0"]
    assert found["0000:c2:00.0"] == ()
    assert (vgpu.vgpu_id, vgpu.vm_id, vgpu.vm_name) == (3251634327, "2103066", "Win11SV2_View87")
    assert (vgpu.name, vgpu.type_id, vgpu.placement_id, vgpu.gpu_instance_id) == ("GRID T4-4Q", 232, 6, None)
    assert (vgpu.licence, vgpu.is_ecc) == ("Licensed (Expiry: 2022-11-23 5:2:12 GMT)", True)
    assert (vgpu.total_mib, vgpu.used_mib, vgpu.guest_driver) == (4096, 641, "527.15")


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_changes_the_vgpus(disguise: Callable[[str], str]) -> None:
    text = printed("vgpu-q-t4.txt")
    assert parse_vgpus(disguise(text)) == parse_vgpus(text)


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (parse_vgpu_types, "GPU 00000000:36:00.0\n    Name : A100-4C\n", "no vGPU type"),
        (parse_vgpu_types, "    NVIDIA A100-4C\n", "no GPU block"),
        (parse_verbose_types, "GPU 00000000:36:00.0\n    vGPU Type ID : 0x1\n", "without a name"),
        (
            parse_verbose_types,
            "GPU 00000000:36:00.0\n    vGPU Type ID : many\n        Name : A100-4C\n",
            "no number",
        ),
        (parse_vgpus, "GPU 00000000:36:00.0\n    Active vGPUs : 1\n", "0 vGPUs shown, 1 counted"),
        (parse_vgpus, "GPU 00000000:36:00.0\n    vGPU ID : 7\n", "1 vGPUs shown, None counted"),
    ],
)
def test_what_is_not_understood_is_an_error(parse: Callable[[str], object], text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse(text)


@pytest.mark.parametrize("parse", [parse_vgpu_types, parse_verbose_types, parse_vgpus])
def test_no_driver_is_no_vgpu(parse: Callable[[str], object]) -> None:
    with pytest.raises(ToolFailed):
        parse(printed("query-driver-not-loaded.txt"))
