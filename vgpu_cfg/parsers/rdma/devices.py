"""What a guest tells of its RDMA devices: `ibv_devinfo`, and the GID table by `show_gids` or from sysfs.

Sources: rdma-core, `libibverbs/examples/devinfo.c`; MLNX_OFED's script `show_gids` as public logs show it
(columns apart by tabs, no IPv4 for a GID that holds none); kernel ABI,
`Documentation/ABI/stable/sysfs-class-infiniband` (`gids`, `gid_attrs/types`, `gid_attrs/ndevs`).
"""

from __future__ import annotations

import ipaddress
import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import Line, int_or_error, lines_with_content

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
            raise UnreadableOutput(DEVINFO, "no device", line=line.text, number=line.number)
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
            raise UnreadableOutput(SHOW_GIDS, "no GID", line=line.text, number=line.number)
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
            raise UnreadableOutput(SYSFS_GIDS, "no GID", line=line.text, number=line.number)
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
