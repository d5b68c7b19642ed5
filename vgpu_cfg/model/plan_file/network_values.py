"""The key `networks` as its author writes it: lines, and addresses (subnets, pools, gateways, NICs).

Addresses are IPv4. Every parser raises ValueError; a hint, if any, is on the second line of
the message.

A line has a name, a portgroup to make, and the addresses of guests.
"""

from __future__ import annotations

import ipaddress
import re
from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import TakesEffect, Text, key
from vgpu_cfg.model.plan_file.host_values import Mtu, one_or_list, parse_interface_address

CIDR_PATTERN = r"[0-9]{1,3}(\.[0-9]{1,3}){3}/[0-9]{1,2}"
ADDRESS_PATTERN = r"[0-9]{1,3}(\.[0-9]{1,3}){3}"
POOL_PATTERN = rf"{ADDRESS_PATTERN} ?- ?{ADDRESS_PATTERN}"
_POOL = re.compile(rf"(?P<first>{ADDRESS_PATTERN}) ?- ?(?P<last>{ADDRESS_PATTERN})")
_LARGEST_PREFIX = 8
"""A subnet with a shorter prefix contains addresses that cannot be assigned."""
_SMALLEST_PREFIX = 30
"""A subnet with a longer prefix has no room for two machines and its own two addresses."""

LIVE = TakesEffect.LIVE
IN_GUEST = TakesEffect.IN_GUEST
NEXT_RUN = TakesEffect.NEXT_RUN


def refuse_ipv6(value: object) -> None:
    """Raise ValueError for an address, range or subnet of IPv6, which vgpu-cfg sets in no guest."""
    if isinstance(value, str) and re.split(r"[/ -]", value)[0].count(":") > 1:
        hint = "remove this key; set IPv6 addresses in the template"
        raise ValueError(f"{value!r} is IPv6, but vgpu-cfg sets only IPv4 addresses in guests\n{hint}")


def parse_subnet(value: object) -> str:
    """Return a subnet such as `10.111.0.0/24`."""
    refuse_ipv6(value)
    if not isinstance(value, str) or re.fullmatch(CIDR_PATTERN, value) is None:
        raise ValueError("a subnet must be an IPv4 address with a prefix\nexample: 10.111.0.0/24")
    try:
        subnet = ipaddress.IPv4Network(value, strict=False)
    except ValueError:
        raise ValueError(f"{value!r} is not a valid IPv4 subnet\nexample: 10.111.0.0/24") from None
    if str(subnet) != value:
        raise ValueError(f"{value} is an address in a subnet, not a subnet\nuse {subnet}")
    if subnet.prefixlen < _LARGEST_PREFIX:
        raise ValueError(f"the subnet {value} is larger than any private network\nexample: 10.0.0.0/8")
    if subnet.prefixlen > _SMALLEST_PREFIX:
        raise ValueError(f"the subnet {value} is too small for two machines\nexample: {subnet[0]}/24")
    return value


def parse_pool(value: object) -> tuple[str, str]:
    """Return the first and the last address of `10.111.0.11-10.111.0.60`."""
    refuse_ipv6(value)
    if isinstance(value, tuple):
        value = "-".join(str(one) for one in value)
    found = _POOL.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError("a pool must have the form FIRST-LAST\nexample: 10.111.0.11-10.111.0.60")
    first, last = parse_address(found["first"]), parse_address(found["last"])
    if ipaddress.IPv4Address(last) < ipaddress.IPv4Address(first):
        raise ValueError(f"the pool ends at {last}, which is before {first}\nuse {last}-{first}")
    return first, last


def parse_address(value: object) -> str:
    """Return an IPv4 address without a prefix, such as `10.111.0.1`."""
    refuse_ipv6(value)
    try:
        return str(ipaddress.IPv4Address(value)) if isinstance(value, str) else _refuse_address(value)
    except ValueError:
        return _refuse_address(value)


def _refuse_address(value: object) -> str:
    shown = repr(value) if isinstance(value, str) else "this"
    without = value.partition("/")[0] if isinstance(value, str) else ""
    hint = (
        f"use {without}"
        if without != value and re.fullmatch(ADDRESS_PATTERN, without)
        else "example: 10.111.0.1"
    )
    raise ValueError(f"{shown} is not a valid IPv4 address\n{hint}")


def parse_nic_address(value: object) -> str | None:
    """Return the address of a NIC: `dhcp`, `pool`, or an address with its prefix; it may contain `{k}`.

    With `{k}`, the text is unchanged, and checked as for the first NIC.
    """
    if value in ("dhcp", "pool"):
        return str(value)
    if not isinstance(value, str):
        raise ValueError("`ip` must be dhcp, pool, or an address with its prefix\nexample: 10.111.0.21/24")
    refuse_ipv6(value)
    if "{k}" in value:
        parse_interface_address(value.replace("{k}", "1"))
        return value
    if value and not value[0].isdigit():
        raise ValueError(f"{value!r} is not dhcp, pool, or a valid address\nexample address: 10.111.0.21/24")
    return parse_interface_address(value)


def _empty_is_absent(value: object) -> object:
    return None if value == "" else value


def _pattern(pattern: str) -> Any:
    return Annotated[str, Field(pattern=f"^{pattern}$")]


_Address = Annotated[str, Field(pattern=f"^{ADDRESS_PATTERN}$")]
Subnet = Annotated[str, BeforeValidator(parse_subnet, json_schema_input_type=_pattern(CIDR_PATTERN))]
Pool = Annotated[tuple[str, str], BeforeValidator(parse_pool, json_schema_input_type=_pattern(POOL_PATTERN))]
Gateway = Annotated[
    str | None,
    BeforeValidator(
        lambda value: parse_address(value) if _empty_is_absent(value) is not None else None,
        json_schema_input_type=_pattern(f"({ADDRESS_PATTERN})?"),
    ),
]
Addresses = Annotated[
    tuple[Annotated[str, BeforeValidator(parse_address, json_schema_input_type=_Address)], ...],
    one_or_list("an address", str, _Address | list[_Address]),
]

_NEEDS_SWITCH: dict[str, Any] = {
    "if": {"required": ["physical"], "properties": {"physical": {"not": {"const": False}}}},
    "then": {"not": {"required": ["switch"]}},
    "else": {"dependentRequired": {"vlan": ["switch"], "mtu": ["switch"]}},
    "dependentRequired": {"pool": ["subnet"]},
}


class SwitchEntry(Frozen):
    """A distributed switch that may be made."""

    name: Text = Field(description="The switch's name.", json_schema_extra={"x-takes-effect": LIVE.value})
    make: bool = key("Whether to create the switch if it does not exist.", LIVE, "false")


class NetworkEntry(Frozen):
    """A network that must exist; VMs may use others too."""

    name: Text = Field(description="The network's name; a range creates several networks.")
    switch: Text | SwitchEntry = key(
        "The distributed switch that contains the network's port group, which is created if missing.",
        LIVE,
        "looked up, never created",
    )
    physical: bool = key(
        "Whether the network only describes the cabling of passthrough NICs, which vSphere does not manage.",
        NEXT_RUN,
        "false",
    )
    vlan: Annotated[int, Field(ge=0, le=4094)] = key(
        "The port group's VLAN; 0: none. Requires `switch` or `physical`; with `physical`, the VLAN is "
        "only reported.",
        LIVE,
        "unchanged",
    )
    mtu: Mtu = key(
        "The MTU in bytes, for the switch and the guests' NICs. Requires `switch` or `physical`.",
        LIVE,
        "unchanged",
    )
    subnet: Subnet = key("The subnet of this network, such as 10.111.0.0/24.", IN_GUEST)
    pool: Pool = key(
        "The first and last address that `ip: pool` assigns to NICs; both in `subnet`.", IN_GUEST
    )
    gateway: Gateway = key("The guests' default gateway.", IN_GUEST, "none")
    dns: Addresses = key(
        "Name servers for guests that are assigned an address on this network.", IN_GUEST, "none"
    )

    model_config = ConfigDict(json_schema_extra=_NEEDS_SWITCH)
