"""Something is written to a host.

A host write is what the API takes in one call: all graphics settings of a host, the option string of one
kernel module, one command on its shell. The `settings` of a change are what a reading must show afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.changes.host_base import HostChangeBase
from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.graphics import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.vgpu import VgpuMode


class GraphicsWrite(Frozen):
    """`UpdateGraphicsConfig`, on the object read back; what is None or not listed stays.

    `graphics_types` and `vgpu_modes` are by PCI address.
    """

    kind: Literal["graphics"] = "graphics"
    default_type: GraphicsType | None = None
    assignment_policy: AssignmentPolicy | None = None
    graphics_types: Mapping[str, GraphicsType] = Field(default_factory=dict)
    vgpu_modes: Mapping[str, VgpuMode] = Field(default_factory=dict)


class PassthroughDevice(Frozen):
    """How one PCI function shall be handed out; None stays as it is."""

    pci_id: str
    is_passthrough: bool | None = None
    label: str | None = None
    virtual_functions: int | None = None


class PassthroughWrite(Frozen):
    """`UpdatePassthruConfig` for some functions (`SriovConfig` where virtual functions are set)."""

    kind: Literal["passthrough"] = "passthrough"
    devices: tuple[PassthroughDevice, ...]


class OptionWrite(Frozen):
    """`OptionManager.UpdateOptions` of a host. The type of each value goes over the wire: bool, int, str."""

    kind: Literal["option"] = "option"
    options: Mapping[str, bool | int | str]


class ModuleWrite(Frozen):
    """`UpdateModuleOptionString`: the whole, merged option string of one kernel module.

    `before` is the string that it was merged from: where another stands there by the time of writing,
    somebody changed it, and nothing is written.
    """

    kind: Literal["module"] = "module"
    module: str
    options: str
    before: str = ""


class EsxcliWrite(Frozen):
    """One esxcli command, through vCenter or, where that is not possible, on the host's shell.

    `arguments` are long options without dashes, in order; one that is listed twice is a list.
    """

    kind: Literal["esxcli"] = "esxcli"
    command: str
    arguments: tuple[tuple[str, str], ...] = ()


class ShellWrite(Frozen):
    """Commands on the host's shell, one argument list each; the first that fails ends them."""

    kind: Literal["shell"] = "shell"
    commands: tuple[tuple[str, ...], ...]


class RulesetWrite(Frozen):
    """Open or close a ruleset of the host's firewall."""

    kind: Literal["ruleset"] = "ruleset"
    ruleset: str
    is_enabled: bool


class VmknicWrite(Frozen):
    """Make a VMkernel NIC on a network (`device` None), or change its address or MTU.

    `address` is CIDR or "dhcp", None where it stays.
    """

    kind: Literal["vmknic"] = "vmknic"
    device: str | None = None
    network_moid: str = ""
    network_name: str = ""
    address: str | None = None
    mtu: int | None = None


class SwitchWrite(Frozen):
    """Set the MTU or the uplinks of a standard switch of the host; None stays.

    `before` are the uplinks that the new ones were made from: where others are there by the time of
    writing, nothing is written.
    """

    kind: Literal["switch"] = "switch"
    switch: str
    mtu: int | None = None
    uplinks: tuple[str, ...] | None = None
    before: tuple[str, ...] = ()


class LicenceWrite(Frozen):
    """Assign a licence to the host; `secret` names the plan file's secret that holds the key."""

    kind: Literal["licence"] = "licence"
    secret: str


HostWrite = Annotated[
    GraphicsWrite
    | PassthroughWrite
    | OptionWrite
    | ModuleWrite
    | EsxcliWrite
    | ShellWrite
    | RulesetWrite
    | VmknicWrite
    | SwitchWrite
    | LicenceWrite,
    Field(discriminator="kind"),
]


class ChangeHost(HostChangeBase):
    """Write one thing to a host. What does not hold at once waits for a restart further on.

    `other_way` is taken where the first way is refused as not offered, never where it failed.
    """

    kind: Literal["change_host"] = "change_host"
    write: HostWrite
    other_way: HostWrite | None = None
    settings: tuple[SettingTarget, ...]
