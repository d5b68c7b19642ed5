"""A line of `networks` as its author writes it: a name, and the portgroup to make where there is none."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import TakesEffect, Text, key
from vgpu_cfg.model.plan_file.host_fields import Mtu

LIVE = TakesEffect.LIVE


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
    vlan: Annotated[int, Field(ge=0, le=4094)] = key(
        "The portgroup's VLAN; 0: none. Needs `switch`.", LIVE, "as it is"
    )
    mtu: Mtu = key("The switch's largest packet in bytes. Needs `switch`.", LIVE, "as it is")

    model_config = ConfigDict(
        json_schema_extra={"dependentRequired": {"vlan": ["switch"], "mtu": ["switch"]}}
    )
