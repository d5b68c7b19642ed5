"""What a port shows of trust, PFC and buffers by dcb, and what NICs have counted."""

from __future__ import annotations

import pytest

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.rdma.devices import (
    LOST,
    NOTIFIED,
    dropped,
    parse_hw_counters,
    parse_statistics,
    paused,
    risen,
    sent_by_priority,
)
from vgpu_cfg.parsers.rdma.settings import parse_dcb, parse_dcb_buffers
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput

STATISTICS = "ethtool-statistics-of-a-whole-nic.txt"
HARDWARE = "hw-counters-of-a-busy-port.txt"


def test_a_port_that_dcb_shows_lossless() -> None:
    seen = parse_dcb(printed("dcb-pfc-lossless.txt"), printed("dcb-app-lossless.txt"))
    assert (seen.trust, seen.protected, seen.priority_of) == ("dscp", frozenset({3}), {24: 3, 26: 3, 48: 6})


def test_a_port_as_it_comes() -> None:
    seen = parse_dcb(printed("dcb-pfc-nothing-protected.txt"), printed("dcb-app-nothing.txt"))
    assert (seen.trust, seen.protected, seen.priority_of) == ("pcp", frozenset(), {})


def test_whose_buffer_is_whose() -> None:
    assert parse_dcb_buffers(printed("dcb-buffer-lossless.txt"), 3) == (frozenset(), 131008)
    shared, size = parse_dcb_buffers(printed("dcb-buffer-one-for-all.txt"), 3)
    assert (shared, size) == (frozenset({0, 1, 2, 4, 5, 6, 7}), 262016)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"prio_pfc":[1]}', '{"prio_pfc":true}'])
def test_what_is_no_answer_of_dcb(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        parse_dcb(text, "{}")
    with pytest.raises(UnreadableOutput):
        parse_dcb_buffers(text, 3)
    with pytest.raises(UnreadableOutput):
        parse_dcb(printed("dcb-pfc-lossless.txt"), '{"dscp_prio":[[1,2,3]]}')


@pytest.mark.parametrize("disguise", DISGUISES)
def test_statistics_are_read_by_name(disguise: object) -> None:
    counts = parse_statistics(disguise(printed(STATISTICS)))  # type: ignore[operator]  # a table of functions
    assert [counts[name] for name in paused(3)] == [12, 99]
    assert [counts[name] for name in dropped(3) if name in counts] == [0, 0, 0]
    assert sent_by_priority(counts, "tx")[3] == 27657272230
    assert sent_by_priority({}, "tx") == {}


def test_a_driver_without_statistics_tells_none() -> None:
    assert parse_statistics(printed("ethtool-statistics-none.txt")) == {}
    assert parse_statistics("") == {}
    with pytest.raises(ToolFailed):
        parse_statistics("Cannot get stats strings information: Operation not supported\n")


def test_hardware_counters_are_read_by_name() -> None:
    counts = parse_hw_counters(printed(HARDWARE))
    assert {name: counts[name] for name in NOTIFIED} == {
        "np_ecn_marked_roce_packets": 21278189006,
        "np_cnp_sent": 1052612505,
        "rp_cnp_handled": 0,
        "rp_cnp_ignored": 0,
    }
    assert counts["out_of_sequence"] == 1811101
    assert set(LOST) - set(counts) == set()
    with pytest.raises(UnreadableOutput):
        parse_hw_counters("np_cnp_sent: 4\n")


def test_only_what_rose_in_both_readings_counts() -> None:
    assert risen({"a": 1, "b": 5, "c": 2}, {"a": 4, "b": 1, "d": 9}) == {"a": 3}
