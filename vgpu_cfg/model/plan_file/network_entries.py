"""A line of `networks` as its author writes it: a name, a portgroup to make, and the addresses of guests."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, ConfigDict, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import TakesEffect, Text, key
from vgpu_cfg.model.plan_file.host_fields import Mtu, one_or_list
from vgpu_cfg.model.plan_file.network_values import (
    ADDRESS_PATTERN,
    CIDR_PATTERN,
    POOL_PATTERN,
    parse_address,
    parse_pool,
    parse_subnet,
)

LIVE = TakesEffect.LIVE
IN_GUEST = TakesEffect.IN_GUEST
NEXT_RUN = TakesEffect.NEXT_RUN


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
    make: bool = key("Whether the switch is made where it does not exist.", LIVE, "false")


class NetworkEntry(Frozen):
    """A network that must exist; VMs may use others too."""

    name: Text = Field(description="The network's name; a range makes several.")
    switch: Text | SwitchEntry = key(
        "The distributed switch that the network is a portgroup of; it is made there where it is absent.",
        LIVE,
        "it is looked up, and never made",
    )
    physical: bool = key(
        "Whether it is only the cabling of NICs that are passed through, of which vSphere knows nothing.",
        NEXT_RUN,
        "false",
    )
    vlan: Annotated[int, Field(ge=0, le=4094)] = key(
        "The portgroup's VLAN; 0: none. Needs `switch`, or `physical`, where it is told and not set.",
        LIVE,
        "as it is",
    )
    mtu: Mtu = key(
        "The largest packet in bytes: the switch's, and that of the guests' NICs. Needs `switch` or "
        "`physical`.",
        LIVE,
        "as it is",
    )
    subnet: Subnet = key("The addresses on this network, as in 10.111.0.0/24.", IN_GUEST)
    pool: Pool = key(
        "The first and the last address that `ip: pool` gives to NICs; both in `subnet`.", IN_GUEST
    )
    gateway: Gateway = key("The router that guests send to by default.", IN_GUEST, "none")
    dns: Addresses = key("Name servers of guests that are given an address here.", IN_GUEST, "none")

    model_config = ConfigDict(json_schema_extra=_NEEDS_SWITCH)
