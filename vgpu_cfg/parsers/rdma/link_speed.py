"""How fast a NIC's port and its PCIe link are, and could be: `ethtool INTERFACE`, and sysfs of the device.

Sources: ethtool, `ethtool.c` and `common.c` ("Supported link modes:", "Speed: 100000Mb/s", "Speed:
Unknown!"); kernel, `drivers/pci/pci-sysfs.c` and `pci_speed_string` of `drivers/pci/probe.c`:
`current_link_speed` reads `16.0 GT/s PCIe` (`8 GT/s` before 5.10), `Unknown` where the device does not tell;
`current_link_width` reads 0 or 255 then.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import ToolFailed, UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content

ETHTOOL = "ethtool INTERFACE"
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


class PortSpeed(Frozen):
    """What a port runs at and what it could, in Gb/s; None where ethtool does not tell."""

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
        """What it carries, without the encoding, in Gb/s."""
        if self.speed is None or self.width is None:
            return None
        share = next(share for most, share in _ENCODED if self.speed < most)
        return self.speed * self.width * share

    @property
    def words(self) -> str:
        """Say "PCIe 16 GT/s x16", and of what where it could do more."""
        if self.speed is None or self.width is None:
            return "PCIe link not told"
        now = f"PCIe {self.speed:g} GT/s x{self.width}"
        is_less = (self.most_speed or 0) > self.speed or (self.most_width or 0) > self.width
        return f"{now} of {self.most_speed or 0:g} GT/s x{self.most_width}" if is_less else now


def parse_port_speed(text: str) -> PortSpeed:
    """Read what `ethtool` prints of a port. Raises ToolFailed, UnreadableOutput for what is no such text."""
    lines = lines_with_content(text)
    if not lines or not lines[0].text.strip().startswith("Settings for"):
        first = lines[0].text.strip() if lines else "printed nothing"
        raise ToolFailed(ETHTOOL, line=first)
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
            raise UnreadableOutput(LINK, "no link", line=line.text, number=line.number)
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
