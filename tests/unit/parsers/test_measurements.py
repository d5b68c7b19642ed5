"""What measures: ib_write_bw, nccl-tests, this tool's own allreduce; and small tools of a guest."""

from __future__ import annotations

import pytest

from tests.unit.parsers.printed import printed
from vgpu_cfg.parsers.allreduce import parse_nccl_tests, parse_probe, transports
from vgpu_cfg.parsers.guest_system import (
    parse_active,
    parse_check_build,
    parse_modules,
)
from vgpu_cfg.parsers.rdma.perftest import lacks_cuda, parse_bandwidth
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput


def test_the_average_counts_where_a_peak_is_not_measured() -> None:
    found = parse_bandwidth(printed("ib-write-bw-by-time.txt"))
    assert found.average_gbps == 94.80
    assert not found.used_gpu


def test_a_warning_may_stand_inside_the_table() -> None:
    assert parse_bandwidth(printed("ib-write-bw-warning-in-the-table.txt")).average_gbps == 328.61


def test_gpu_memory_is_proven_by_what_was_allocated() -> None:
    found = parse_bandwidth(printed("ib-write-bw-gpu-memory.txt"))
    assert (found.average_gbps, found.used_gpu) == (47.0, True)


def test_megabytes_are_not_taken_for_gigabits() -> None:
    with pytest.raises(UnreadableOutput, match="unit is not Gb/sec"):
        parse_bandwidth(printed("ib-write-bw-in-megabytes.txt"))


def test_perftests_own_word_is_told() -> None:
    with pytest.raises(ToolFailed, match="Couldn't connect"):
        parse_bandwidth(printed("ib-write-bw-nobody-listens.txt"))
    assert lacks_cuda(printed("ib-write-bw-without-cuda.txt"))
    assert not lacks_cuda(printed("ib-write-bw-gpu-memory.txt"))


def test_the_largest_size_of_nccl_tests_counts() -> None:
    found = parse_nccl_tests(printed("nccl-tests-two-ranks.txt"))
    assert (found.ranks, found.size_bytes, found.busbw_gigabytes) == (2, 268435456, 11.18)
    assert found.is_exact is True


def test_old_tables_without_a_root_and_with_prefixes_are_read() -> None:
    found = parse_nccl_tests(printed("nccl-tests-old-and-prefixed.txt"))
    assert (found.ranks, found.busbw_gigabytes, found.is_exact) == (2, 1.19, False)


def test_the_labels_of_srun_are_left_out() -> None:
    text = "".join(f"0: {line}\n" for line in printed("nccl-tests-two-ranks.txt").splitlines())
    assert parse_nccl_tests(text) == parse_nccl_tests(printed("nccl-tests-two-ranks.txt"))


def test_a_failure_of_nccl_is_told() -> None:
    with pytest.raises(ToolFailed, match="unhandled system error"):
        parse_nccl_tests(printed("nccl-tests-failure.txt"))


def test_the_probes_line_is_found_among_logs() -> None:
    text = printed("allreduce-probe-among-logs.txt")
    found = parse_probe(text)
    assert (found.by, found.ranks, found.busbw_gigabytes) == ("horovod", 2, 11.2)
    assert (found.is_exact, found.framework) == (True, "tensorflow")
    assert transports(text) == {"NET/Socket"}


@pytest.mark.parametrize(
    "said", ["{", "[]", '{"v": 2}', '{"v": 1, "ranks": "x"}', '{"v": 1, "by": "x"}', "1" * 5000, "[" * 50_000]
)
def test_what_is_no_result_of_the_probe_is_an_error(said: str) -> None:
    with pytest.raises(UnreadableOutput):
        parse_probe(f"VGPU-CFG-ALLREDUCE {said}\n")


def test_two_results_are_one_too_many() -> None:
    with pytest.raises(UnreadableOutput, match="2 results"):
        parse_probe(printed("allreduce-probe-among-logs.txt") * 2)


def test_transports_are_told_without_their_numbers() -> None:
    assert transports(printed("nccl-tests-two-ranks.txt")) == {"NET/IB/GDRDMA"}


def test_what_horovod_was_built_with() -> None:
    found = parse_check_build(printed("horovod-check-build-without-nccl.txt"))
    assert (found.version, found.frameworks) == ("0.28.1", ("TensorFlow",))
    assert (found.controllers, found.operations) == (("Gloo",), ("Gloo",))
    greeted = parse_check_build(printed("horovod-check-build-after-a-greeting.txt"))
    assert "NCCL" in greeted.operations
    with pytest.raises(UnreadableOutput, match="no version"):
        parse_check_build("bash: horovodrun: command not found\n")


def test_modules_are_named_in_the_first_column() -> None:
    assert "nvidia_peermem" in parse_modules(printed("lsmod-with-peermem.txt"))
    with pytest.raises(UnreadableOutput):
        parse_modules("")


def test_a_unit_has_one_of_systemds_states() -> None:
    assert parse_active("inactive\n") == "inactive"
    with pytest.raises(UnreadableOutput):
        parse_active("System has not been booted with systemd\n")
