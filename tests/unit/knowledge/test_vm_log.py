"""What is taken of a VM's log: the last start, the line that tells, its number and its message."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.knowledge.faults import VmLog, last_start, message, time_of

PATH = "[vsan] hvd-02/vmware.log"
HEAD = "2026-11-20T22:30:{:02}.000Z In(05) vmx - Log for VMware ESX pid={} version=8.0.3 build=build-1"
PAGES = "PCIPassthru: total number of pages needed (4206594) exceeds limit (917504), failing"
FAILED = "Module 'DevicePowerOn' power on failed."
LOG = "\n".join(
    [
        HEAD.format(1, 1),
        f"2026-11-20T22:30:02.100Z In(05) vmx - {FAILED}",
        HEAD.format(5, 2),
        "2026-11-20T22:30:06.000Z In(05) vmx - Hostname=esx-01",
        f"2026-11-20T22:30:07.100Z In(05) vcpu-0 - {PAGES}",
        f"2026-11-20T22:30:07.200Z In(05) vcpu-0 - {FAILED}",
        "",
    ]
)


def test_only_the_last_start_counts_and_lines_keep_their_numbers() -> None:
    log = last_start(PATH, LOG)
    assert log.first == 3
    assert len(log.lines) == 4
    (line,) = log.known
    assert line.key == "mmio-too-small"
    assert log.place(line.index) == "vmware.log:5"
    assert message(line.text) == PAGES


def test_a_log_without_a_start_is_taken_whole() -> None:
    log = last_start(PATH, f"a\r\n{PAGES}\r\n")
    assert (log.first, log.lines) == (1, ("a", PAGES))


def test_the_end_of_a_log_has_no_numbers_and_its_first_line_is_left_out() -> None:
    log = last_start(PATH, f"half a line\n{PAGES}\n", is_whole=False)
    assert (log.first, log.lines) == (None, (PAGES,))
    assert log.place(0) == "vmware.log"


def test_no_text_is_no_line() -> None:
    log = last_start(PATH, "")
    assert (log.lines, log.known, log.signs, log.begun_at, log.ended_at) == ((), (), (), None, None)


def test_a_log_that_is_too_long_loses_whole_lines_of_its_beginning() -> None:
    log = VmLog(path=PATH, lines=("12345", "12345", "12345"), first=7)
    assert log.shortened(18) == log
    assert log.shortened(12) == VmLog(path=PATH, lines=("12345", "12345"), first=8)
    assert log.shortened(11).lines == ("12345",)
    assert log.shortened(5).lines == ()


@pytest.mark.parametrize(
    "line",
    [
        f"2026-11-20T22:30:07.100Z In(05) vcpu-0 - {PAGES}",
        f"2026-11-20T22:30:07.100Z Er(02)+ vmx - {PAGES}",
        f"2022-04-22T03:04:15.771Z| vmx| | I005: {PAGES}",
        f"2022-04-22T03:04:15.771Z| vcpu-0| I125: {PAGES}",
        PAGES,
        f"  {PAGES}  ",
    ],
)
def test_the_message_of_a_line_is_what_comes_after_time_thread_and_level(line: str) -> None:
    assert message(line) == PAGES


def test_the_time_of_a_line() -> None:
    log = last_start(PATH, LOG)
    assert log.begun_at == datetime(2026, 11, 20, 22, 30, 5, tzinfo=UTC)
    assert log.ended_at == datetime(2026, 11, 20, 22, 30, 7, 200000, tzinfo=UTC)
    assert time_of(PAGES) is None


def test_lines_that_may_tell_of_a_failure_are_found_where_none_is_known() -> None:
    text = "vmiop_log: (0x0): gpu-pci-id : 0x4100\nall is well\nMsg_Post: Error\n[msg.x] Odd."
    assert last_start(PATH, text).signs == (0, 2, 3)
    assert last_start(PATH, "all is well\nHostname=esx-01").signs == ()
