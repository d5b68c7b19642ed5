"""A guest's RDMA devices: ports and GIDs, the speed of a NIC's port and its PCIe link, and counters.

The GID table is read by `show_gids` or from sysfs, speeds by `ethtool INTERFACE` and sysfs, mlx5's statistics
by `ethtool -S`. `show_gids` parts its columns by tabs, and has no IPv4 for a GID that holds none.
`current_link_speed` reads `16.0 GT/s PCIe` (`8 GT/s` before 5.10), `Unknown` if the device does not report
it; `current_link_width` reads 0 or 255 then. A virtual function has no counters of the physical port.

Sources on ports and GIDs: rdma-core, `libibverbs/examples/devinfo.c` (`ibv_devinfo`); MLNX_OFED's script
`show_gids` as public logs show it; kernel ABI, `Documentation/ABI/stable/sysfs-class-infiniband` (`gids`,
`gid_attrs/types`, `gid_attrs/ndevs`). On speeds: ethtool, `ethtool.c` and `common.c` ("Supported link
modes:", "Speed: 100000Mb/s", "Speed: Unknown!"); kernel, `drivers/pci/pci-sysfs.c` and `pci_speed_string` of
`drivers/pci/probe.c`. On names and meanings of counters: the kernel's documentation,
networking/device_drivers/ethernet/mellanox/mlx5/counters.rst (`rx_prio3_pause`, `rx_discards_phy`), and
NVIDIA's "Understanding mlx5 Linux counters" for `ports/1/hw_counters` in sysfs (`np_cnp_sent`,
`out_of_sequence`).

Belief: mlx5-counters, sound-link-counts-no-errors.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import TypeVar

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.text import Line, ToolFailed, UnreadableOutput, int_or_error, lines_with_content

DEVINFO = "ibv_devinfo"
SHOW_GIDS = "show_gids"
SYSFS_GIDS = "grep -s . /sys/class/infiniband/*/ports/*/gid*"

_FIELD = re.compile(r"(?P<key>[\w. ]+?):\s*(?P<value>.*)")
_NUMBERED = re.compile(r"(?P<word>\S+)(?: \((?P<number>\d+)\))?")
_SYSFS = re.compile(
    r"/sys/class/infiniband/(?P<device>[^/]+)/ports/(?P<port>\d{1,3})/"
    r"(?P<what>gids|gid_attrs/types|gid_attrs/ndevs)/(?P<index>\d{1,4}):(?P<value>.*)"
)
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_WHAT = {"gids": "gid", "gid_attrs/types": "type", "gid_attrs/ndevs": "netdev"}

ETHTOOL_OF_INTERFACE = "ethtool INTERFACE"
LINK = "current_link_speed"

_SPEED = re.compile(r"Speed: (?P<mbps>\d{1,7})Mb/s")
_MODE = re.compile(r"(?P<mbps>\d{2,7})base\S+")
_FILE = re.compile(r"(?:.*/)?(?P<name>(?:current|max)_link_(?:speed|width)):(?P<value>.*)")
_TRANSFERS = re.compile(r"(?P<rate>\d{1,3}(?:\.\d+)?) GT/s")
_NO_WIDTH = (0, 255)
_ENCODED = ((6.0, 8 / 10), (40.0, 128 / 130), (1e9, 242 / 256))
"""Up to which rate a link carries which share of its bits as data: 8b/10b, 128b/130b, flits of 256 bytes.

Source: PCI Express Base Specification, revisions 1.0 to 6.0.
"""


class RdmaPort(Frozen):
    """A port of a device. `state` is as printed without its number: PORT_ACTIVE, PORT_DOWN, PORT_INIT."""

    number: int
    state: str
    link_layer: str = ""
    active_mtu: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether it carries traffic."""
        return self.state == "PORT_ACTIVE"


class RdmaDevice(Frozen):
    """An RDMA device. `part_id` is the PCI device id, in decimal as printed."""

    name: str
    firmware: str = ""
    part_id: int | None = None
    ports: tuple[RdmaPort, ...] = ()


class Gid(Frozen):
    """An entry of a port's GID table. `version` is 1 or 2; `ipv4` where the GID holds such an address."""

    device: str
    port: int
    index: int
    gid: str
    version: int
    netdev: str = ""
    ipv4: str | None = None


def parse_devinfo(text: str) -> tuple[RdmaDevice, ...]:
    """Read `ibv_devinfo`, with or without `-v`; "No IB devices found" is an empty answer.

    Raises UnreadableOutput for a port outside a device, and for a number that is none.
    """
    lines = lines_with_content(text)
    if not lines:
        raise UnreadableOutput(DEVINFO, "printed nothing")
    devices: list[dict[str, object]] = []
    ports: list[dict[str, object]] = []
    for line in lines:
        words = line.text.strip()
        if words.startswith("No IB devices found"):
            return ()
        if words.startswith("Failed to"):  # a function that belongs to another namespace; others follow
            continue
        found = _FIELD.fullmatch(words)
        if found is None:
            continue
        key, value = found["key"], found["value"].strip()
        if key == "hca_id":
            ports = []
            devices.append({"name": value, "ports": ports})
        elif not devices:
            raise UnreadableOutput(DEVINFO, "not a device", line=line.text, number=line.number)
        elif key == "port":
            ports.append({"number": int_or_error(DEVINFO, value, line), "state": ""})
        elif ports:
            ports[-1].update(_port_fact(key, value, line))
        elif key == "fw_ver":
            devices[-1]["firmware"] = value
        elif key == "vendor_part_id":
            devices[-1]["part_id"] = int_or_error(DEVINFO, value, line)
    if not devices:
        raise ToolFailed(DEVINFO, line=lines[0].text, number=lines[0].number)
    return tuple(RdmaDevice.model_validate(device) for device in devices)


def _port_fact(key: str, value: str, line: Line) -> dict[str, object]:
    word = _NUMBERED.match(value)
    if key == "state" and word is not None:
        return {"state": word["word"]}
    if key == "link_layer":
        return {"link_layer": value}
    if key == "active_mtu" and word is not None:
        return {key: int_or_error(DEVINFO, word["word"], line)}
    return {}


def parse_show_gids(text: str) -> tuple[Gid, ...]:
    """Read what `show_gids` prints; a GID without an interface has no last column.

    Raises UnreadableOutput for a line that is no entry.
    """
    found: list[Gid] = []
    for line in lines_with_content(text):
        words = line.text.split()
        if words[0] in ("DEV", "---") or words[0].startswith(("n_gids_found", "---")):
            continue
        at = next((place for place, word in enumerate(words) if word.lower() in ("v1", "v2")), None)
        if at not in (4, 5) or len(words) > at + 2:
            raise UnreadableOutput(SHOW_GIDS, "not a GID", line=line.text, number=line.number)
        found.append(
            Gid(
                device=words[0],
                port=int_or_error(SHOW_GIDS, words[1], line),
                index=int_or_error(SHOW_GIDS, words[2], line),
                gid=words[3].lower(),
                version=int(words[at][1]),
                netdev=words[at + 1] if len(words) > at + 1 else "",
                ipv4=_ipv4_in(words[3]),
            )
        )
    return tuple(found)


def parse_sysfs_gids(text: str) -> tuple[Gid, ...]:
    """Read the GID tables as `grep` prints the files: `path:content`, one line each.

    Places of the table without an address, or without a type, are left out.
    Raises UnreadableOutput for a line that is no such file.
    """
    entries: dict[tuple[str, int, int], dict[str, str]] = {}
    for line in lines_with_content(text):
        reported = _SYSFS.fullmatch(line.text.strip())
        if reported is None:
            raise UnreadableOutput(SYSFS_GIDS, "not a GID", line=line.text, number=line.number)
        key = (reported["device"], int(reported["port"]), int(reported["index"]))
        entries.setdefault(key, {})[_WHAT[reported["what"]]] = reported["value"].strip()
    return tuple(
        Gid(
            device=device,
            port=port,
            index=index,
            gid=entry["gid"].lower(),
            version=2 if entry["type"].endswith("v2") else 1,
            netdev=entry.get("netdev", ""),
            ipv4=_ipv4_in(entry["gid"]),
        )
        for (device, port, index), entry in sorted(entries.items())
        if entry.get("gid", _NO_GID) != _NO_GID and "type" in entry
    )


def _ipv4_in(gid: str) -> str | None:
    """Return the IPv4 address that a GID holds (::ffff:a.b.c.d), None where it holds none."""
    try:
        mapped = ipaddress.IPv6Address(gid).ipv4_mapped
    except ValueError:
        return None
    return str(mapped) if mapped is not None else None


class PortSpeed(Frozen):
    """A port's current rate and its maximum, in Gb/s; None if ethtool does not show it."""

    gbps: float | None = None
    most_gbps: float | None = None


class PcieLink(Frozen):
    """A PCIe link: transfers per second and lane in GT/s, and lanes; None where the kernel does not know."""

    speed: float | None = None
    width: int | None = None
    most_speed: float | None = None
    most_width: int | None = None

    @property
    def gbps(self) -> float | None:
        """Its capacity, without the encoding, in Gb/s."""
        if self.speed is None or self.width is None:
            return None
        share = next(share for most, share in _ENCODED if self.speed < most)
        return self.speed * self.width * share

    @property
    def words(self) -> str:
        """Say "PCIe 16 GT/s x16", and of what where it could do more."""
        if self.speed is None or self.width is None:
            return "PCIe link not reported"
        now = f"PCIe {self.speed:g} GT/s x{self.width}"
        is_less = (self.most_speed or 0) > self.speed or (self.most_width or 0) > self.width
        return f"{now} of {self.most_speed or 0:g} GT/s x{self.most_width}" if is_less else now


def parse_port_speed(text: str) -> PortSpeed:
    """Read what `ethtool` prints of a port. Raises ToolFailed, UnreadableOutput for any other text."""
    lines = lines_with_content(text)
    if not lines or not lines[0].text.strip().startswith("Settings for"):
        first = lines[0].text.strip() if lines else "printed nothing"
        raise ToolFailed(ETHTOOL_OF_INTERFACE, line=first)
    now: float | None = None
    modes: list[int] = []
    heading = ""
    for line in lines[1:]:
        words = line.text.strip()
        if ":" in words:
            heading = words.partition(":")[0]
        if heading == "Supported link modes":
            modes += [int(found["mbps"]) for found in _MODE.finditer(words)]
        if (found := _SPEED.fullmatch(words)) is not None:
            now = int(found["mbps"]) / 1000
    return PortSpeed(gbps=now, most_gbps=max(modes) / 1000 if modes else None)


def parse_pcie_link(text: str) -> PcieLink:
    """Read the files of a link as `grep` prints them: `path:content`, one line each; none is no answer.

    Raises UnreadableOutput for a line that is none of them.
    """
    found: dict[str, str] = {}
    for line in lines_with_content(text):
        read = _FILE.fullmatch(line.text.strip())
        if read is None:
            raise UnreadableOutput(LINK, "not a link", line=line.text, number=line.number)
        found[read["name"]] = read["value"].strip()
    return PcieLink(
        speed=_transfers(found.get("current_link_speed", "")),
        width=_lanes(found.get("current_link_width", "")),
        most_speed=_transfers(found.get("max_link_speed", "")),
        most_width=_lanes(found.get("max_link_width", "")),
    )


def _transfers(text: str) -> float | None:
    found = _TRANSFERS.match(text)
    return float(found["rate"]) if found is not None else None


def _lanes(text: str) -> int | None:
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= 3 else 0
    return number if number not in _NO_WIDTH else None


ETHTOOL_STATISTICS = "ethtool -S"
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
_COUNTER_FILE = re.compile(
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
        raise ToolFailed(ETHTOOL_STATISTICS, line=lines[-1].text, number=lines[-1].number)
    return found


def parse_hw_counters(text: str) -> dict[str, int]:
    """Read the counters as `grep` prints the files: `path:value`, one line each.

    Raises UnreadableOutput for a line that is no such file.
    """
    found: dict[str, int] = {}
    for line in lines_with_content(text):
        read = _COUNTER_FILE.fullmatch(line.text.strip())
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
