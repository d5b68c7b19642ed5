from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.nvidia.smi import parse_vgpus
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput


def test_running_vgpus_by_gpu() -> None:
    found = parse_vgpus(printed("vgpu-q-t4.txt"))
    (vgpu,) = found["0000:c1:00.0"]
    assert found["0000:c2:00.0"] == ()
    assert (vgpu.vm_name, vgpu.licence) == ("Win11SV2_View87", "Licensed (Expiry: 2022-11-23 5:2:12 GMT)")


def test_a_guest_without_a_driver_tells_no_licence() -> None:
    found = parse_vgpus(printed("vgpu-q-one-guest-without-a-driver.txt"))["0001:c8:00.0"]
    assert [vgpu.licence for vgpu in found] == [None, "Unlicensed (Unrestricted)"]


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_changes_the_vgpus(disguise: Callable[[str], str]) -> None:
    text = printed("vgpu-q-t4.txt")
    assert parse_vgpus(disguise(text)) == parse_vgpus(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("    vGPU ID : 7\n", "no GPU section"),
        ("GPU 00000000:36:00.0\n    Active vGPUs : 1\n", "0 vGPUs listed, but 1 reported as active"),
        ("GPU 00000000:36:00.0\n    vGPU ID : 7\n", "1 vGPUs listed, but None reported as active"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_vgpus(text)


def test_no_driver_is_no_vgpu() -> None:
    with pytest.raises(ToolFailed):
        parse_vgpus(printed("query-driver-not-loaded.txt"))
