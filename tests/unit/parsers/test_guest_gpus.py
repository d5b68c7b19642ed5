from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tests.unit.parsers.printed import printed
from vgpu_cfg.parsers.nvidia.guest_gpus import parse_guest_query, parse_listed
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput


def test_a_licence_has_an_end_in_utc() -> None:
    seen = parse_guest_query(printed("guest-query-a100-40c-licensed.txt"))
    (gpu,) = seen.gpus
    assert (seen.driver_version, seen.branch) == ("580.95.05", "580")
    assert (gpu.pci_id, gpu.name, gpu.mode) == ("0000:02:01.0", "GRID A100-40C", "VGPU")
    assert gpu.memory_mib == 40960
    assert gpu.is_licensed
    assert gpu.expiry == datetime(2026, 12, 3, 5, 2, 12, tzinfo=UTC)


def test_each_vgpu_has_a_licence_of_its_own() -> None:
    first, second = parse_guest_query(printed("guest-query-one-of-two-restricted.txt")).gpus
    assert (first.is_licensed, second.is_licensed) == (True, False)
    assert (second.licence, second.expiry) == ("Unlicensed (Restricted)", None)


def test_an_old_driver_prints_another_heading_and_no_end() -> None:
    (gpu,) = parse_guest_query(printed("guest-query-old-licensed-without-an-end.txt")).gpus
    assert (gpu.licence, gpu.is_licensed, gpu.expiry) == ("Licensed", True, None)


def test_a_gpu_passed_through_may_tell_no_licence() -> None:
    (gpu,) = parse_guest_query(printed("guest-query-passthrough-no-licence.txt")).gpus
    assert (gpu.mode, gpu.licence, gpu.is_licensed) == ("Pass-Through", None, False)


@pytest.mark.parametrize("state", ["N/A (Expiry: N/A)", "N/A", "n/a (expiry: n/a)"])
def test_not_available_is_no_state_of_a_licence(state: str) -> None:
    section = (
        f"    vGPU Software Licensed Product\n        Product Name : N/A\n        License Status : {state}\n"
    )
    text = printed("guest-query-passthrough-no-licence.txt") + section
    (gpu,) = parse_guest_query(text).gpus
    assert (gpu.mode, gpu.licence, gpu.expiry, gpu.is_licensed) == ("Pass-Through", None, None, False)


def test_a_word_that_only_begins_like_unlicensed_is_no_licence() -> None:
    text = printed("guest-query-a100-40c-licensed.txt").replace(": Licensed (", ": Unlicensed (")
    assert not parse_guest_query(text).gpus[0].is_licensed


def test_a_day_that_is_none_is_an_error() -> None:
    text = printed("guest-query-a100-40c-licensed.txt").replace("2026-12-3 ", "2026-13-3 ")
    with pytest.raises(UnreadableOutput, match="not a date"):
        parse_guest_query(text)


def test_a_driver_that_is_not_loaded_is_told() -> None:
    with pytest.raises(ToolFailed, match="NVIDIA-SMI has failed"):
        parse_guest_query(printed("query-driver-not-loaded.txt"))


def test_a_container_may_greet_before_it_lists() -> None:
    (gpu,) = parse_listed(printed("guest-list-after-a-greeting.txt"))
    assert (gpu.name, gpu.slices) == ("GRID A100-40C", ())


def test_mig_devices_belong_to_the_gpu_above_them() -> None:
    first, second = parse_listed(printed("guest-list-mig.txt"))
    assert (first.slices, second.slices) == (("3g.20gb", "1g.5gb"), ())


def test_a_container_without_gpus_is_an_error() -> None:
    with pytest.raises(UnreadableOutput, match="no GPU"):
        parse_listed("== TensorFlow ==\nbash: nvidia-smi: command not found\n")
