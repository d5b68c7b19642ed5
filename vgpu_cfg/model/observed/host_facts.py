"""Host facts, read only if a plan prepares hosts: options, modules, services, firmware, image, marks.

A fact that could not be read is absent, and `unread` gives the reason, so no default is assumed.
Values are as the source prints them, but for truth values, which are real ones.

Values that only a shell reports are remembered on the host as digests with a date. These texts are readable
with the host and cannot be signed, so they contain no values, only digests that a value can be compared with.
A text that was cut off, edited or brought from another host or attribute fails its own digest and is ignored.

    1 5f0c2a91 3b7c11a4d2e08c1f77a3526c 90ab…
    │ │        └ six digits of the device, six of the state that it was read in, eight of the value, four of
    │ │          the day (hex, counted from 1970-01-01)
    │ └ digest of the rest, with the host and the attribute
    └ the form
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen, Moment
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.cordon import MaintenanceEntry

COMPLIANT = "COMPLIANT"
BASE_IMAGE = "ESXi"
"""The name under which components list the base image."""


class HostImage(Frozen):
    """The last compliance check of a host: its status, its impact, and the components that differ.

    `differs` has each component's version on the host and in the image, "" for none. `effects` are the
    steps of a remediation that affect the host, in vCenter's words.
    """

    status: str
    impact: str = ""
    differs: Mapping[str, tuple[str, str]] = Field(default_factory=dict)
    effects: tuple[str, ...] = ()

    @property
    def is_compliant(self) -> bool:
        return self.status == COMPLIANT

    @property
    def is_refused(self) -> bool:
        """Whether vCenter can not apply the image to the host."""
        return self.status in ("INCOMPATIBLE", "UNAVAILABLE")

    @property
    def words(self) -> str:
        """The status and the impact as the vSphere Client has them: "non-compliant, reboot required"."""
        known = [one.lower().replace("non_", "non-").replace("_", " ") for one in (self.status, self.impact)]
        return ", ".join(one for one in known if one)

    @property
    def outlook(self) -> str:
        """The same, with what vCenter expects of a remediation."""
        expects = f"vCenter expects: {' '.join(self.effects)}" if self.effects else ""
        return "; ".join(one for one in (self.words, expects) if one)


class ClusterImage(Frozen):
    """The image of a cluster, as vSphere Lifecycle Manager has it. Its base image counts as a component.

    `depot` has the versions of each component, the oldest first. `hosts` is the compliance by host moid.
    `manager` names the product that owns the image, such as SDDC Manager. `unread` is why it is not known.
    """

    components: Mapping[str, str] = Field(default_factory=dict)
    depot: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    hosts: Mapping[str, HostImage] = Field(default_factory=dict)
    manager: str = ""
    unread: str = ""


REMEMBERED_PREFIX = "vgpu_cfg.read."
"""The prefix of these custom attributes; the settings table's row and a number follow."""

MOST_IN_ONE = 9
"""How many values one attribute holds: a text of nine has 235 characters.

vCenter's reference names no limit for the length of a custom attribute's value, and none was tried;
255 characters are what this keeps to (unproven).
"""

_FORM = "1"
_ENTRY = re.compile(r"[0-9a-f]{24}")
_EPOCH = date(1970, 1, 1)
_CHECK_DIGITS = 8


class RememberedValue(Frozen):
    """One value that was read, in digests: of its device, of the state that it was read in, of itself."""

    device: str
    state: str
    value: str
    read_on: date


Remembered = Mapping[str, tuple[RememberedValue, ...]]
"""The values in a host's attributes, by their names; empty if a text contained none."""


def digest(*parts: str, digits: int) -> str:
    """Return hex digits over some words; each ends where it ends."""
    text = "\0".join(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def device_digest(host_moid: str, row: str, device: str) -> str:
    """Return the digest of a host's device in a row's stored text."""
    return digest(host_moid, row, device, digits=6)


def state_digest(*parts: str) -> str:
    """Return the digest of a host's state."""
    return digest(*parts, digits=6)


def value_digest(host_moid: str, row: str, device: str, value: str) -> str:
    """Return the digest of a value, different for each host and device, so that it cannot be copied."""
    return digest(host_moid, row, device, value, digits=8)


def attribute_of_row(row: str, number: int) -> str:
    """Return the name of a row's attribute, the first of which has no number."""
    return f"{REMEMBERED_PREFIX}{row}" if number == 1 else f"{REMEMBERED_PREFIX}{row}.{number}"


def remembered_text(host_moid: str, attribute: str, values: Iterable[RememberedValue]) -> str:
    """Write values as an attribute keeps them, empty where there are none."""
    entries = [
        f"{one.device}{one.state}{one.value}{(one.read_on - _EPOCH).days:04x}"
        for one in sorted(values, key=lambda one: (one.device, one.state, one.value))
    ]
    return " ".join([_FORM, _check(host_moid, attribute, entries), *entries]) if entries else ""


def parse_remembered(host_moid: str, texts: Mapping[str, str]) -> Remembered:
    """Parse attributes. Malformed or edited texts and those of other hosts are ignored."""
    return {name: _parse(host_moid, name, text) for name, text in texts.items() if text}


def not_expired(remembered: Remembered, today: date, days: int) -> Remembered:
    """Return the values read within this many days, including today; future dates are ignored."""
    oldest = today - timedelta(days=days)
    return {
        name: tuple(one for one in values if oldest < one.read_on <= today + timedelta(days=1))
        for name, values in remembered.items()
    }


def values_of_row(remembered: Remembered, row: str) -> dict[str, RememberedValue]:
    """Return a row's remembered values by device digest; if two conflict, neither."""
    first = attribute_of_row(row, 1)
    found = [
        one
        for name, values in remembered.items()
        if name == first or (name.startswith(f"{first}.") and name.removeprefix(f"{first}.").isdigit())
        for one in values
    ]
    times = Counter(one.device for one in found)
    return {one.device: one for one in found if times[one.device] == 1}


def _parse(host_moid: str, name: str, text: str) -> tuple[RememberedValue, ...]:
    form, *rest = text.split(" ")
    if form != _FORM or not rest or not all(_ENTRY.fullmatch(entry) for entry in rest[1:]):
        return ()
    check, *entries = rest
    if check != _check(host_moid, name, entries):
        return ()
    return tuple(
        RememberedValue(
            device=entry[:6],
            state=entry[6:12],
            value=entry[12:20],
            read_on=_EPOCH + timedelta(days=int(entry[20:], 16)),
        )
        for entry in entries
    )


def _check(host_moid: str, attribute: str, entries: Iterable[str]) -> str:
    return digest(host_moid, attribute, *entries, digits=_CHECK_DIGITS)


class FactGroup(StrEnum):
    """A group of facts read together, in separate calls per host; a plan reads only the groups it needs.

    BASE comes with the bulk reading: services, firewall, VMkernel NICs, switches, boot time, marks.
    NETWORK_USERS is about the estate: which VMs are on which network. IMAGE is about clusters.
    """

    BASE = "base"
    OPTIONS = "options"
    MODULES = "modules"
    KERNEL = "kernel"
    SOFTWARE = "software"
    OWNERS = "owners"
    LICENCE = "licence"
    NETWORK_USERS = "network-users"
    IMAGE = "image"
    SHELL_GPUS = "shell-gpus"
    SHELL_NICS = "shell-nics"
    SHELL_TOPOLOGY = "shell-topology"
    SHELL_MIG = "shell-mig"


SHELL_GROUPS = frozenset(
    {FactGroup.SHELL_GPUS, FactGroup.SHELL_NICS, FactGroup.SHELL_TOPOLOGY, FactGroup.SHELL_MIG}
)
_SAME_BOOT_SECONDS = 10


class ServiceFact(Frozen):
    """A service of the host. `policy` is vim `HostServicePolicy`: on, off, automatic."""

    running: bool
    policy: str = ""


class KernelSetting(Frozen):
    """A VMkernel boot setting, as listed by `esxcli system settings kernel list`."""

    configured: str
    runtime: str
    default: str = ""


def is_same_boot(one: datetime | None, other: datetime | None) -> bool:
    """Whether two boot times of a host mean the same boot.

    ESXi reckons its boot time from its uptime, so that it may waver by seconds (unproven).
    """
    if one is None or other is None:
        return one is other
    return abs((one - other).total_seconds()) < _SAME_BOOT_SECONDS


class SoftwarePackage(Frozen):
    """An installed VIB."""

    name: str
    version: str
    vendor: str = ""


class DepotLook(Frozen):
    """A host's view of a depot; `refused`: why it cannot read it; `unread`: why the host was not queried.

    `unsigned` are the names of packages of the level CommunitySupported.
    """

    packages: tuple[SoftwarePackage, ...] = ()
    unsigned: tuple[str, ...] = ()
    refused: str = ""
    unread: str = ""


class Vmknic(Frozen):
    """A VMkernel NIC. `services` are vim `HostVirtualNicManagerNicType` words such as vmotion, vsan."""

    device: str
    network: str = ""
    network_moid: str = ""
    address: str = ""
    is_dhcp: bool = False
    mtu: int = 1500
    services: tuple[str, ...] = ()


class HostSwitch(Frozen):
    """A switch as this host sees it; `switch_uuid` only of a distributed one."""

    name: str
    mtu: int | None = None
    uplinks: tuple[str, ...] = ()
    switch_uuid: str | None = None


class HostAttribute(StrEnum):
    """The custom attributes that this tool keeps on hosts, each a JSON text.

    MARK holds a HostMark while work goes on, DONE the manual steps that were acknowledged
    (id → digest), VMNICS the names that NICs had before they were passed through (PCI address → vmnic).
    Values remembered from a host's shell have separate attributes (`remembered`).
    """

    MARK = "vgpu_cfg.host"
    DONE = "vgpu_cfg.done"
    VMNICS = "vgpu_cfg.vmnics"


SSH_SERVICE = "TSM-SSH"
"""The key of ESXi's SSH service in vim `HostService`."""


NO_LOCKDOWN = "lockdownDisabled"
"""Vim `HostLockdownMode`; in the two others only vCenter and listed users may work on the host."""


class HostMark(Frozen):
    """The mark that vgpu-cfg keeps on a host while it works there (`HostAttribute.MARK`).

    `plan` is the plan's name, `id` its id, `run` the run that wrote it ("" in a mark of version 0.1.0).
    `since` is when the work began.
    `waiting` names
    the settings (SettingTarget.id) that were written and wait for a restart, with the boot time at
    writing: once the host's boot time is another, a restart has happened. `opened_ssh` says that
    the tool started the host's SSH service and owes its stop; `maintenance` that it took the host
    into maintenance mode and owes its leaving. One that `is_recovered` is on no host: it was lost, and
    vCenter's events show its run's actions. `restart`: why the host may not respond: it was requested
    to reboot and comes back by itself, or was shut down for a manual step.
    """

    plan: str
    id: str = ""
    run: str = ""
    since: Moment
    maintenance: bool = False
    opened_ssh: bool = False
    reason: str = ""
    restart: Literal["", "reboot", "shutdown"] = ""
    waiting: Mapping[str, Moment | None] = Field(default_factory=dict)
    is_recovered: bool = False

    def is_of(self, plan: PlanIdentity) -> bool:
        """Whether it is a plan's: by its id, or by its name where it holds no id."""
        return self.id == plan.id if self.id else self.plan == plan.name

    def way_on(self, plan: PlanIdentity) -> str:
        """Explain to a user of another plan how to finish the work that the mark describes."""
        its_own = f"wait for {self.plan} to finish, or run its `vgpu-cfg apply` again"
        if not self.id or self.plan != plan.name:
            return its_own
        return (
            f"if it is the same plan from another machine, copy its .id file with the ID {self.id}; "
            f"otherwise, {its_own}"
        )

    @property
    def text(self) -> str:
        """The stored text: JSON without empty fields."""
        return self.model_dump_json(exclude_defaults=True)

    @classmethod
    def parse(cls, text: str) -> HostMark | None:
        """Parse a mark; None if the text is not one, for example after an edit."""
        try:
            return cls.model_validate_json(text)
        except ValueError:
            return None


def recovered_mark(entry: MaintenanceEntry) -> HostMark | None:
    """Return the mark that a run must have left on the host that it took down; None without a run."""
    if not entry.plan:
        return None
    reason = f"set by the plan's run {entry.run}, but vgpu-cfg's marker on the host is missing"
    return HostMark(
        plan=entry.plan, id=entry.plan_id, since=entry.at, maintenance=True, reason=reason, is_recovered=True
    )


class GpuShellFacts(Frozen):
    """A GPU's values from `nvidia-smi`; None if it prints N/A or nothing."""

    mig_current: bool | None = None
    mig_pending: bool | None = None
    ecc_current: bool | None = None
    ecc_pending: bool | None = None
    host_vgpu_mode: str | None = None
    module_id: int | None = None


class FirmwareValue(Frozen):
    """A NIC firmware parameter from `mlxconfig -e query`, without the number in brackets.

    None if the tool printed no such column. `next_boot` is the configured value, `current` the active one.
    """

    default: str | None = None
    current: str | None = None
    next_boot: str | None = None


class GpuLinks(Frozen):
    """`nvidia-smi topo -m` for the GPUs of the host's driver, by PCI address.

    `links` maps a GPU to its links to the others, as printed ("NV12", "SYS"), `numa_nodes` to its NUMA
    node. NICs are left out: the matrix names them by RDMA device, which is no address.
    """

    links: Mapping[str, Mapping[str, str]] = Field(default_factory=dict)
    numa_nodes: Mapping[str, int] = Field(default_factory=dict)


LINKS_UNREAD = "topology"
"""The key in `ShellFacts.unread` of why the links were not read."""


class MigInstance(Frozen):
    """A GPU instance on a GPU in MIG mode: its first memory slice, and the number of slices."""

    start: int
    size: int


MIG_UNREAD = "mig"
"""The key in `ShellFacts.unread` of why the GPU instances were not read."""


class ShellFacts(Frozen):
    """Values from the host's shell, by PCI address. `unread` maps a device, or "" for all, to a reason.

    `links` is None where they were not asked for, or not read (`LINKS_UNREAD`); `mig` likewise
    (`MIG_UNREAD`), else it has each GPU with an instance on it. `has_firmware_tools` says whether NVIDIA's
    MFT is on the host; None if not checked.
    """

    gpus: Mapping[str, GpuShellFacts] = Field(default_factory=dict)
    firmware: Mapping[str, Mapping[str, FirmwareValue]] = Field(default_factory=dict)
    driver_version: str | None = None
    has_firmware_tools: bool | None = None
    links: GpuLinks | None = None
    mig: Mapping[str, tuple[MigInstance, ...]] | None = None
    unread: Mapping[str, str] = Field(default_factory=dict)


class HostFacts(Frozen):
    """One host's facts beyond the inventory.

    `options` are advanced options, `modules` option strings by kernel module (one that is absent is
    not loaded or not known), `kernel` boot settings, `done` the manual steps that a user
    acknowledged there (id → digest), `vmnics` the former names of NICs that are passed through, by PCI
    address, `remembered` the last values read from the shell. `entered` is, for a host in maintenance
    mode without a mark, how it entered it, if known. `owners` names who else owns settings of
    this host ("host profile Gold"). `depots` are the depots it would install from. `unread`
    maps a group to why it was not read.
    """

    groups: frozenset[FactGroup] = frozenset()
    boot_time: datetime | None = None
    reboot_required: bool = False
    lockdown: str = ""
    rebind_without_reboot: bool = False
    services: Mapping[str, ServiceFact] = Field(default_factory=dict)
    rulesets: Mapping[str, bool] = Field(default_factory=dict)
    vmknics: tuple[Vmknic, ...] = ()
    switches: tuple[HostSwitch, ...] = ()
    options: Mapping[str, bool | int | str] = Field(default_factory=dict)
    modules: Mapping[str, str] = Field(default_factory=dict)
    kernel: Mapping[str, KernelSetting] = Field(default_factory=dict)
    software: tuple[SoftwarePackage, ...] = ()
    depots: Mapping[str, DepotLook] = Field(default_factory=dict)
    licence: str = ""
    owners: tuple[str, ...] = ()
    mark: HostMark | None = None
    done: Mapping[str, str] = Field(default_factory=dict)
    vmnics: Mapping[str, str] = Field(default_factory=dict)
    remembered: Remembered = Field(default_factory=dict)
    entered: MaintenanceEntry | None = None
    shell: ShellFacts | None = None
    unread: Mapping[FactGroup, str] = Field(default_factory=dict)

    @property
    def is_ssh_running(self) -> bool:
        """Whether the host's SSH service is running, according to vCenter."""
        service = self.services.get(SSH_SERVICE)
        return service is not None and service.running

    def uplink_of(self, vmnic: str) -> str | None:
        """Return the switch that uses a NIC as uplink, None where none does."""
        return next((switch.name for switch in self.switches if vmnic in switch.uplinks), None)


class ClusterFacts(Frozen):
    """Cluster settings that affect its hosts.

    `image_managed` and `config_managed` say whether a lifecycle image or a configuration profile
    owns the hosts; None if the server is too old to report it. `drs_overrides` is what DRS does with
    single VMs (moid) that have a setting of their own: "manual", "partiallyAutomated",
    "fullyAutomated" (vim `DrsBehavior`), or "disabled" where DRS leaves the VM alone. `image` is the
    image itself, if it was requested.
    """

    drs_options: Mapping[str, str] = Field(default_factory=dict)
    drs_overrides: Mapping[str, str] = Field(default_factory=dict)
    image_managed: bool | None = None
    config_managed: bool | None = None
    image: ClusterImage | None = None


class DistributedSwitch(Frozen):
    """A distributed switch. `portgroup_vlans` maps a portgroup's moid to its VLAN, None for a trunk."""

    moid: str
    name: str
    uuid: str = ""
    mtu: int | None = None
    members: Mapping[str, tuple[str, ...]] = Field(default_factory=dict)
    portgroup_vlans: Mapping[str, int | None] = Field(default_factory=dict)


class EstateFacts(Frozen):
    """Facts of hosts and clusters by moid, of vCenter itself, and the distributed switches.

    `network_vms` gives the VMs on each network by moid, None if that was not read.
    """

    hosts: Mapping[str, HostFacts] = Field(default_factory=dict)
    clusters: Mapping[str, ClusterFacts] = Field(default_factory=dict)
    vcenter_options: Mapping[str, str] = Field(default_factory=dict)
    switches: tuple[DistributedSwitch, ...] = ()
    network_vms: Mapping[str, tuple[str, ...]] | None = None
