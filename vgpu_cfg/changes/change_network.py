"""A distributed switch or portgroup is made or changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.model.frozen import Frozen


class MakeSwitch(Frozen):
    """Make a distributed switch in the datacenter's network folder."""

    kind: Literal["make_switch"] = "make_switch"
    datacenter_moid: str
    name: str
    mtu: int | None = None


class EditSwitch(Frozen):
    """Set a distributed switch's MTU, or give hosts to it with their uplinks; what is empty stays.

    `members` maps a host's moid to the vmnics that become its uplinks on this switch.
    """

    kind: Literal["edit_switch"] = "edit_switch"
    switch_name: str
    switch_moid: str | None = None
    mtu: int | None = None
    members: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)


class SetPortgroup(Frozen):
    """Make a portgroup on a distributed switch (`portgroup_moid` None), or set its VLAN.

    A new one starts with so many `ports` as a new one of the vSphere Client, bound when a NIC is tied to it
    (static binding), and gets more as they are needed (elastic).
    """

    kind: Literal["set_portgroup"] = "set_portgroup"
    switch_name: str
    switch_moid: str | None = None
    portgroup_moid: str | None = None
    name: str
    vlan: int | None = None
    ports: int = 8


class ChangeNetwork(ChangeBase):
    """Make or change a distributed switch or portgroup: one task.

    A switch that the same plan makes has no moid yet: whoever runs the plan fills it in by name.
    """

    kind: Literal["change_network"] = "change_network"
    network: Annotated[MakeSwitch | EditSwitch | SetPortgroup, Field(discriminator="kind")]
