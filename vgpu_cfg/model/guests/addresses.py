"""The extraConfig key in which a VM keeps the addresses that its pools gave it, and how its words are spelt.

`nic2=10.111.0.11/24` is the second NIC's address; `nic3=10.112.0.11/24@b8:59:9f:00:00:01` tells also by
which MAC the guest knows a NIC that is passed through, since vCenter does not report it once it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_interface

from vgpu_cfg.model.frozen import Frozen

ADDRESSES_KEY = "vgpu_cfg.addresses"

_WORD = re.compile(r"nic([1-9][0-9]{0,2})=([^@=]*)(?:@([0-9a-f]{2}(?::[0-9a-f]{2}){5}))?")


class KeptAddress(Frozen):
    """What is kept of one NIC: an address with its prefix length, a MAC; either may be empty."""

    address: str = ""
    mac: str = ""


def print_addresses(kept: Mapping[int, KeptAddress]) -> str:
    """Spell what is kept, by the NIC's place in the plan file from 0; "" where that is nothing."""
    words = [
        f"nic{index + 1}={one.address}{f'@{one.mac}' if one.mac else ''}"
        for index, one in sorted(kept.items())
        if one.address or one.mac
    ]
    return " ".join(words)


def parse_addresses(text: str) -> dict[int, KeptAddress]:
    """Read it back; words that are none are left out, since the key is open to everybody."""
    found: dict[int, KeptAddress] = {}
    for word in text.split():
        match = _WORD.fullmatch(word.casefold())
        if match is None:
            continue
        number, address, mac = match.groups()
        try:
            spelt = str(ip_interface(address)) if address else ""
        except ValueError:
            continue
        if spelt or mac:
            found[int(number) - 1] = KeptAddress(address=spelt, mac=mac or "")
    return found
