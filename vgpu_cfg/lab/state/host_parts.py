"""The software of a host in the lab: each part as configured, and as in effect."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

OptionKind = Literal["bool", "int", "long", "string"]
"""vim option types `BoolOption`, `IntOption`, `LongOption`, `StringOption`."""


VNIC_SERVICES = (
    "vmotion",
    "faultToleranceLogging",
    "management",
    "vsan",
    "vSphereProvisioning",
    "vSphereReplication",
    "vSphereReplicationNFC",
)
"""Words of vim `HostVirtualNicManagerNicType`; vSphere has some more."""

POWER_POLICIES = {1: "static", 2: "dynamic", 3: "low", 4: "custom"}
"""Keys of hosts' power policies, with their short names: high performance, balanced, low power, custom."""


@dataclass(slots=True)
class FirmwareParameter:
    """One parameter of a NIC's firmware, in the words of `mlxconfig`: `True(1)`, `ETH(2)`, `8`.

    `next_boot` is the configured value, `current` the one in effect.
    """

    default: str
    current: str
    next_boot: str


@dataclass(slots=True)
class KernelModule:
    """A VMkernel module. `configured` is its option string, `at_boot` the one that it was loaded with."""

    name: str
    version: str = ""
    filename: str = ""
    configured: str = ""
    at_boot: str = ""
    loaded: bool = True


@dataclass(slots=True)
class KernelSetting:
    """A boot setting of the VMkernel as `esxcli system settings kernel list` prints it.

    `kind` is `Bool`, `String` or an integer type's name. `is_option` says that it shows as the advanced
    option `VMkernel.Boot.<name>`, too.
    """

    kind: str
    configured: str
    runtime: str
    default: str
    description: str = ""
    is_option: bool = True


@dataclass(slots=True)
class AdvancedOption:
    """An advanced option with its type; a value of another type is refused."""

    kind: OptionKind
    value: bool | int | str
    default: bool | int | str
    label: str = ""


@dataclass(slots=True)
class HostService:
    """A service. `policy` is vim `HostServicePolicy`: on, off, automatic. It decides at a boot."""

    label: str
    running: bool
    policy: str


@dataclass(slots=True)
class FirewallRuleset:
    """A ruleset of the host's firewall: TCP ports from `port` to `end_port`.

    `allowed` are addresses, and networks such as `192.0.2.0/24`, that alone get in; None lets all in.
    """

    label: str
    enabled: bool
    port: int
    end_port: int | None = None
    service: str = ""
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Vib:
    """A software package (VIB)."""

    name: str
    version: str
    vendor: str
    summary: str = ""
    level: str = "VMwareCertified"
    """Its acceptance level."""


@dataclass(slots=True)
class Vmknic:
    """A VMkernel NIC on a standard portgroup (by name) or on a distributed one (by moid).

    `services` are vim `HostVirtualNicManagerNicType` words.
    """

    device: str
    mac: str
    portgroup: str = ""
    distributed: str = ""
    ip: str = ""
    netmask: str = ""
    dhcp: bool = False
    mtu: int = 1500
    services: tuple[str, ...] = ()


@dataclass(slots=True)
class StandardSwitch:
    """A standard switch. Its uplinks are the NICs whose `uplink_of` names it.

    `portgroups` maps the names of portgroups for VMkernel NICs to their VLAN; portgroups for VMs are networks
    of the inventory. `standby` are the uplinks that wait for an active one to fail, `unused` those that the
    teaming order does not name; `active` is the order of the others, if it was sent.
    """

    name: str
    mtu: int = 1500
    portgroups: dict[str, int] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass(slots=True)
class OpaqueSwitch:
    """A switch of another network manager, such as NSX, that vCenter shows and cannot change.

    Its uplinks are the NICs whose `uplink_of` names it; `vteps` its tunnel endpoints.
    """

    name: str
    vteps: list[Vmknic] = field(default_factory=list)
