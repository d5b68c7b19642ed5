"""What is done to hosts, clusters, networks and vCenter itself, as plain data.

A host write is what the API takes in one call: all graphics settings of a host, the
option string of one kernel module, one command on its shell. The `settings` of a change
are what a reading must show afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase, is_nothing
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.graphics import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.vgpu import VgpuMode


class HostRef(Frozen):
    """A host by name and managed object id."""

    name: str
    moid: str


class SettingTarget(Frozen):
    """One setting of one device and the value it shall have.

    `setting` is a key of the settings table, `device` a PCI address, a vmnic, or empty for the
    host itself. `value` and `before` are the setting's own canonical words.
    """

    setting: str
    device: str = ""
    value: str
    before: str | None = None

    @property
    def id(self) -> str:
        """How it is named in marks and messages: `mig 0000:21:00.0`, `ats`."""
        return f"{self.setting} {self.device}".rstrip()


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


class HostChangeBase(ChangeBase):
    """A change to one host. `wave` names the group of hosts that share a limit on how many are down."""

    host: HostRef
    wave: str = ""


class EnterMaintenance(HostChangeBase):
    """Mark the host with who takes it down and why, raise the alarm, and enter maintenance mode.

    `evacuates` names the running VMs that DRS moves away. At most `max_down` hosts of a wave are
    between this and their `ExitMaintenance`. `window` is when it may begin, as the plan file has it.
    A host that somebody else holds in maintenance mode (`is_held`) is marked and not entered, nor is one that
    an earlier run of the plan took there, whose mark was lost (`is_recovered`).
    `timeout_seconds` is vCenter's limit on it, 0 for none. `takes_seconds` is how long the host is thought to
    be away: it is not begun where its window closes sooner.
    """

    kind: Literal["enter_maintenance"] = "enter_maintenance"
    reason: str
    evacuates: tuple[str, ...] = ()
    vsan: Literal["ensureAccessibility", "noAction", "evacuateAllData"] | None = None
    max_down: int = 1
    window: str = ""
    takes_seconds: int = Field(default=0, exclude_if=is_nothing)
    is_held: bool = False
    is_recovered: bool = False
    timeout_seconds: int = 1800


class ChangeHost(HostChangeBase):
    """Write one thing to a host. What does not hold at once waits for a restart further on.

    `other_way` is taken where the first way is refused as not offered, never where it failed.
    """

    kind: Literal["change_host"] = "change_host"
    write: HostWrite
    other_way: HostWrite | None = None
    settings: tuple[SettingTarget, ...]


class RestartService(HostChangeBase):
    """Restart a service of the host; `settles` must hold afterwards."""

    kind: Literal["restart_service"] = "restart_service"
    service: str
    settles: tuple[SettingTarget, ...] = ()


class RebootHost(HostChangeBase):
    """Reboot the host and wait until it is back; `settles` must hold then."""

    kind: Literal["reboot_host"] = "reboot_host"
    settles: tuple[SettingTarget, ...] = ()


class ShutDownHost(HostChangeBase):
    """Shut the host down, for a manual step that follows."""

    kind: Literal["shut_down_host"] = "shut_down_host"


class BmcRef(Frozen):
    """A server's management controller: where it is, and who logs in; `password` is a secret's name."""

    address: str
    user: str
    password: str | None = None
    thumbprint: str | None = None
    system: str = ""


class ColdBootHost(HostChangeBase):
    """Shut the host down, and have its BMC switch it on once it is off; `settles` must hold then."""

    kind: Literal["cold_boot_host"] = "cold_boot_host"
    bmc: BmcRef
    settles: tuple[SettingTarget, ...] = ()


class ExitMaintenance(HostChangeBase):
    """Read back every setting of the run, leave maintenance mode, clear the mark and the alarm.

    A host that has left already keeps nothing of the mark either. One that somebody else held in
    maintenance mode before (`is_held`) stays there, and only the mark goes.
    """

    kind: Literal["exit_maintenance"] = "exit_maintenance"
    settles: tuple[SettingTarget, ...] = ()
    is_held: bool = False
    timeout_seconds: int = 600


RESTART_KINDS = ("reboot_host", "cold_boot_host", "shut_down_host")
"""The kinds of change that take a host down and, by themselves or by a hand, up again."""


class SetCordon(HostChangeBase):
    """Keep new VMs off a host or its GPUs, or give them back: custom attributes of the host, by their names.

    An empty text clears one. Plain calls, no task.
    """

    kind: Literal["set_cordon"] = "set_cordon"
    values: Mapping[str, str]


class SetClusterOption(ChangeBase):
    """Set one advanced option of a cluster's DRS; None removes it."""

    kind: Literal["set_cluster_option"] = "set_cluster_option"
    cluster_moid: str
    option: str
    value: str | None


class SetVCenterOption(ChangeBase):
    """Set one advanced setting of vCenter itself."""

    kind: Literal["set_vcenter_option"] = "set_vcenter_option"
    option: str
    value: bool | int | str


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
