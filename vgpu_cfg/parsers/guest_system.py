"""What small tools of a Linux guest print: lsmod, ip, ethtool, systemctl, Horovod's list of its parts.

Sources: kmod `lsmod(8)`; iproute2 `ip -json address show`; `systemctl(1)`, is-active;
horovod/horovod, `horovod/runner/launch.py`, `--check-build`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content, pci_id_of

LSMOD = "lsmod"
IP_ADDRESS = "ip -json address show"
IS_ACTIVE = "systemctl is-active"
CHECK_BUILD = "horovodrun --check-build"

_STATES = frozenset(
    {"active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance", "unknown"}
)
_BUS = re.compile(r"^bus-info: *(\S+)", re.MULTILINE)
_VERSION = re.compile(r"Horovod v(?P<version>[0-9][^\s:]*):?")
_PART = re.compile(r"\[(?P<mark>[X ])\] (?P<name>\S.*)")


class Interface(Frozen):
    """A network interface of the guest. `addresses` are IPv4 ones in CIDR, `driver` is "" where not asked."""

    name: str
    mac: str = ""
    mtu: int | None = None
    is_up: bool = False
    addresses: tuple[str, ...] = ()
    driver: str = ""


class HorovodBuild(Frozen):
    """What a Horovod was built with, in its own words, by the heading they stand under."""

    version: str
    frameworks: tuple[str, ...] = ()
    controllers: tuple[str, ...] = ()
    operations: tuple[str, ...] = Field(default=())


def parse_modules(text: str) -> frozenset[str]:
    """Read the names that `lsmod` lists. Raises UnreadableOutput where its header is missing."""
    lines = lines_with_content(text)
    if not lines or lines[0].text.split()[:1] != ["Module"]:
        raise UnreadableOutput(LSMOD, "no header", line=lines[0].text if lines else "")
    return frozenset(line.text.split()[0] for line in lines[1:])


def bus_of(text: str) -> str | None:
    """Read an interface's PCI address from `ethtool -i`, None where it is no PCI function."""
    found = _BUS.search(text)
    return pci_id_of(found[1]) if found is not None else None


def parse_interfaces(text: str) -> tuple[Interface, ...]:
    """Read `ip -json address show`. Raises UnreadableOutput for what is no such JSON."""
    try:
        listed: Any = json.loads(text)
        return tuple(_interface(one) for one in listed if one)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise UnreadableOutput(IP_ADDRESS, "no JSON of interfaces", line=text.strip()[:200]) from error


def _interface(one: Mapping[str, Any]) -> Interface:
    addresses = tuple(
        f"{part['local']}/{part['prefixlen']}"
        for part in one.get("addr_info", ())
        if part.get("family") == "inet"
    )
    # A virtual function may be "UNKNOWN" and carry traffic; the flag tells what the link does.
    is_up = one.get("operstate") == "UP" or "LOWER_UP" in one.get("flags", ())
    mac, mtu = one.get("address", ""), one.get("mtu")
    return Interface(name=one["ifname"], mac=str(mac).lower(), mtu=mtu, is_up=is_up, addresses=addresses)


def parse_active(text: str) -> str:
    """Read the state of one unit. Raises UnreadableOutput where it is none that systemd has."""
    state = text.strip()
    if state not in _STATES:
        raise UnreadableOutput(IS_ACTIVE, "no state", line=state[:200])
    return state


def parse_check_build(text: str) -> HorovodBuild:
    """Read what Horovod says it was built with. Raises UnreadableOutput where it does not say its version."""
    version = ""
    parts: dict[str, list[str]] = {}
    heading = ""
    for line in lines_with_content(text):
        words = line.text.strip()
        if (reported := _VERSION.fullmatch(words)) is not None:
            version = reported["version"]
        elif words.startswith("Available ") and words.endswith(":"):
            heading = words.removeprefix("Available ").removesuffix(":")
        elif heading and (part := _PART.fullmatch(words)) is not None and part["mark"] == "X":
            parts.setdefault(heading, []).append(part["name"])
    if not version:
        raise UnreadableOutput(CHECK_BUILD, "no version", line=text.strip()[-200:])
    return HorovodBuild(
        version=version,
        frameworks=tuple(parts.get("Frameworks", ())),
        controllers=tuple(parts.get("Controllers", ())),
        operations=tuple(parts.get("Tensor Operations", ())),
    )
