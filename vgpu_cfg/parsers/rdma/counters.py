"""A NIC's counters: mlx5's statistics by `ethtool -S`, and the RDMA device's counters in sysfs.

Names and meanings: the kernel's documentation, networking/device_drivers/ethernet/mellanox/mlx5/counters.rst
(`rx_prio3_pause`, `rx_discards_phy`; a virtual function has no counters of the physical port), and NVIDIA's
"Understanding mlx5 Linux counters" for `ports/1/hw_counters` (`np_cnp_sent`, `out_of_sequence`).

Belief: mlx5-counters, sound-link-counts-no-errors.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeVar

from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content

ETHTOOL = "ethtool -S"
HW_COUNTERS = "grep -s . /sys/class/infiniband/DEVICE/ports/PORT/hw_counters/*"

LOST = (
    "out_of_sequence",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "roce_adp_retrans_to",
)
"""Counters of an RDMA device that rise where packets were lost, reordered, or waited for in vain."""

DISCARDED = ("rx_discards_phy", "tx_discards_phy")
"""Counters of a port that rise where it drops packets."""

LINK_ERRORS = ("rx_symbol_err_phy", "rx_pcs_symbol_err_phy", "rx_crc_errors_phy", "link_down_events_phy")
"""Counters of a port that rise where its link damages packets (what FEC mends is not in them), or is lost."""

RECEIVER_LATE = ("rnr_nak_retry_err", "out_of_buffer")
"""Counters that rise where an application had no buffer ready: no fault of the network."""

NOTIFIED = ("np_ecn_marked_roce_packets", "np_cnp_sent", "rp_cnp_handled", "rp_cnp_ignored")
"""Marks of the switch that came in; the notifications (CNP) sent for them, heeded and not heeded."""

STORM_ERRORS = "tx_pause_storm_error_events"
"""How often a port had paused the network for so long that it gave pauses up, and may have lost packets."""

STORMS = (STORM_ERRORS, "tx_pause_storm_warning_events")
"""Counters of a port that rise while it pauses the network for long (PFC storm)."""

STALLED = ("outbound_pci_stalled_wr_events", "outbound_pci_stalled_rd_events")
"""Seconds in which a NIC waited for PCIe for more than 30 % of the time."""

GLOBAL_PAUSE = ("rx_global_pause", "tx_global_pause")
"""Pauses of the whole link (802.3x), instead of PFC for one priority."""

_LINE = re.compile(r"\s*(?P<name>[A-Za-z][\w.\[\] -]{0,79}): (?P<value>\d{1,20})")
_FILE = re.compile(
    r"/sys/class/infiniband/[^/]+/ports/\d{1,3}/hw_counters/(?P<name>\w{1,60}):(?P<value>\d{1,20})"
)


def paused(priority: int) -> tuple[str, ...]:
    """Name the counters of pause frames for one priority."""
    return f"rx_prio{priority}_pause", f"tx_prio{priority}_pause"


def pause_duration(priority: int) -> str:
    """Name the counter of the microseconds for which a port was paused on one priority."""
    return f"rx_prio{priority}_pause_duration"


def dropped(priority: int) -> tuple[str, ...]:
    """Name the counters of a port's dropped packets, of one priority and of all."""
    return *DISCARDED, f"rx_prio{priority}_discards", f"rx_prio{priority}_buf_discard"


def parse_statistics(text: str) -> dict[str, int]:
    """Read `ethtool -S INTERFACE`; a driver without statistics has none.

    Raises ToolFailed for any other output.
    """
    found: dict[str, int] = {}
    lines = lines_with_content(text)
    for line in lines:
        read = _LINE.fullmatch(line.text.rstrip())
        if read is not None:
            found[read["name"].strip()] = int(read["value"])
    if (
        not found
        and lines
        and not lines[0].text.strip().startswith(("no stats available", "NIC statistics:"))
    ):
        raise ToolFailed(ETHTOOL, line=lines[-1].text, number=lines[-1].number)
    return found


def parse_hw_counters(text: str) -> dict[str, int]:
    """Read the counters as `grep` prints the files: `path:value`, one line each.

    Raises UnreadableOutput for a line that is no such file.
    """
    found: dict[str, int] = {}
    for line in lines_with_content(text):
        read = _FILE.fullmatch(line.text.strip())
        if read is None:
            raise UnreadableOutput(HW_COUNTERS, "not a counter", line=line.text, number=line.number)
        found[read["name"]] = int(read["value"])
    return found


_Count = TypeVar("_Count", int, float)


def risen(before: Mapping[str, _Count], after: Mapping[str, _Count]) -> dict[str, _Count]:
    """Return by how much each counter rose; one that was set back meanwhile is left out."""
    return {
        name: after[name] - before[name] for name in before if name in after and after[name] >= before[name]
    }


def sent_by_priority(counts: Mapping[str, int], side: str) -> dict[int, int]:
    """Return the bytes of each priority that has a counter; `side` is "tx" or "rx"."""
    return {number: counts[name] for number in range(8) if (name := f"{side}_prio{number}_bytes") in counts}
