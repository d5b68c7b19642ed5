from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.nvidia.smi import parse_gpu_csv, parse_query, parse_query_leniently
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput

PENDING = "query-2xa100-esxi-mig-pending.txt"


def test_the_two_modes_of_mig_and_ecc_are_told_apart() -> None:
    report = parse_query(printed(PENDING))
    first, second = report.gpus
    assert (first.pci_id, first.mig_current, first.mig_pending) == ("0000:36:00.0", False, True)
    assert (second.pci_id, second.mig_current, second.mig_pending) == ("0000:d8:00.0", True, True)
    assert (first.ecc_current, first.ecc_pending) == (True, True)
    assert (second.ecc_current, second.ecc_pending) == (False, True)


def test_a_vgpu_host_tells_what_its_devices_can() -> None:
    report = parse_query(printed(PENDING))
    gpu = report.gpu("0000:36:00.0")
    assert gpu is not None
    assert (report.driver_version, report.attached) == ("550.127.06", 2)
    assert (gpu.host_vgpu_mode, gpu.module_id) == ("SR-IOV", 1)
    assert report.gpu("0000:99:00.0") is None


@pytest.mark.parametrize(
    ("name", "driver", "modules"),
    [
        (PENDING, "550.127.06", [1, 2]),
        ("query-570-platform-info-blank-chassis.txt", "570.124.06", [1]),
        ("query-580-platform-info-wide.txt", "580.119.02", [1]),
        ("query-4xgb300-580-modules-out-of-order.txt", "580.173.02", [2, 1, 4, 3]),
    ],
)
def test_a_module_is_told_in_either_place(name: str, driver: str, modules: list[int]) -> None:
    report = parse_query(printed(name))
    assert report.driver_version == driver
    assert [gpu.module_id for gpu in report.gpus] == modules


def test_what_an_old_driver_does_not_have_is_none() -> None:
    (gpu,) = parse_query(printed("query-m60-old-driver-na.txt")).gpus
    assert (gpu.mig_current, gpu.mig_pending, gpu.module_id, gpu.host_vgpu_mode) == (None, None, None, None)
    assert (gpu.ecc_current, gpu.ecc_pending) == (False, False)
    assert gpu.facts.ecc_current is False


def test_one_gpu_of_several_may_be_asked() -> None:
    report = parse_query(printed("query-one-of-four.txt"))
    assert [gpu.pci_id for gpu in report.gpus] == ["0001:c8:00.0"]
    assert report.attached == 4


def test_a_word_that_is_new_is_an_error_with_its_line() -> None:
    text = printed("query-one-gpu-with-a-new-word.txt")
    with pytest.raises(UnreadableOutput, match="Half Way") as caught:
        parse_query(text)
    assert caught.value.exit_code == 5
    assert "nvidia-smi -q" in caught.value.message
    assert caught.value.remedy


def test_a_gpu_that_cannot_be_read_hides_no_other() -> None:
    report = parse_query_leniently(printed("query-one-gpu-with-a-new-word.txt"))
    assert [gpu.pci_id for gpu in report.gpus] == ["0000:d8:00.0"]
    assert "Half Way" in report.unreadable["0000:36:00.0"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("query-driver-not-loaded.txt", "NVIDIA driver"), ("query-no-devices.txt", "No devices were found")],
)
def test_the_tools_own_error_is_told_as_such(name: str, said: str) -> None:
    with pytest.raises(ToolFailed, match=said) as caught:
        parse_query(printed(name))
    assert caught.value.number == 1
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "\n \n", "what is this"])
def test_what_is_no_report_is_an_error(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        parse_query(text)


def test_a_gpu_that_stands_there_twice_is_an_error() -> None:
    text = printed("query-m60-old-driver-na.txt")
    with pytest.raises(UnreadableOutput, match="duplicate GPU"):
        parse_query(text + text)


@pytest.mark.parametrize("disguise", DISGUISES)
def test_no_disguise_changes_a_report(disguise: Callable[[str], str]) -> None:
    assert parse_query(disguise(printed(PENDING))) == parse_query(printed(PENDING))


CSV = """index, pci.bus_id, name, mig.mode.current, memory.total [MiB]
0, 00000000:4A:00.0, NVIDIA A100 80GB PCIe, Enabled, 81920 MiB
1, 00000000:61:00.0, Tesla T4, [N/A], 15360 MiB
"""


def test_a_row_of_csv_is_a_gpu() -> None:
    assert parse_gpu_csv(CSV) == (
        {
            "index": "0",
            "pci.bus_id": "0000:4a:00.0",
            "name": "NVIDIA A100 80GB PCIe",
            "mig.mode.current": "Enabled",
            "memory.total": "81920 MiB",
        },
        {
            "index": "1",
            "pci.bus_id": "0000:61:00.0",
            "name": "Tesla T4",
            "mig.mode.current": None,
            "memory.total": "15360 MiB",
        },
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("index, name\n0, A100, 40 GB\n", "3 columns, but 2 were expected"),
        ("index, index\n0, 1\n", "no header"),
        ("index, pci.bus_id\n0, somewhere\n", "not a PCI address"),
        ('index, name\n0, "never closed\n', "not CSV"),
        ('Field "mig.mode" is not a valid field to query.\n', "not a valid field"),
    ],
)
def test_csv_that_is_not_understood_is_an_error(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_gpu_csv(text)


WORDS = st.sampled_from([(None, "N/A"), (True, "Enabled"), (False, "Disabled")])


@given(
    st.lists(
        st.tuples(st.integers(0, 0xFFFFFFFF), st.integers(0, 255), WORDS, WORDS, WORDS),
        min_size=1,
        max_size=9,
        unique_by=lambda gpu: gpu[:2],
    )
)
def test_generated_reports_give_back_their_values(
    gpus: list[tuple[int, int, tuple[bool | None, str], tuple[bool | None, str], tuple[bool | None, str]]],
) -> None:
    text = f"==============NVSMI LOG==============\n\nAttached GPUs    : {len(gpus)}\n"
    for domain, bus, current, pending, ecc in gpus:
        text += f"GPU {domain:08X}:{bus:02X}:00.0\n    MIG Mode\n        Current  : {current[1]}\n"
        text += f"        Pending  : {pending[1]}\n    Ecc Mode\n        Current  : {ecc[1]}\n"
    found = parse_query(text).gpus
    assert [(gpu.pci_id, gpu.mig_current, gpu.mig_pending, gpu.ecc_current) for gpu in found] == [
        (f"{domain:04x}:{bus:02x}:00.0", current[0], pending[0], ecc[0])
        for domain, bus, current, pending, ecc in gpus
    ]
