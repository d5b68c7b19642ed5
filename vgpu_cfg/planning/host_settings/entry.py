"""An entry of the settings table: all of this project's facts on one host setting, down to its writes.

Adding a setting is adding an entry; nothing outside the table names a single setting.
"""

from __future__ import annotations

import operator
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

from vgpu_cfg.catalog import Board
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, HostWrite, ShellWrite
from vgpu_cfg.changes.values import Impact, SettingTarget
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import ClusterFacts, FactGroup, HostFacts
from vgpu_cfg.model.observed.inventory import Cluster, Gpu, Host, HostNic, PciDevice
from vgpu_cfg.planning.findings.collection import Objection


@dataclass(frozen=True, slots=True)
class HostView:
    """One host as it was read: inventory, facts, its cluster, and the catalog's facts of its devices.

    `boards` holds the boards of GPUs and `names` all names of a device, both by PCI address. `holders` names
    the VMs, running or not, that name a device as their own (fixed DirectPath I/O), by its PCI address; under
    "" those whose devices were not read. The VMs of the plan itself are not among them.
    """

    host: Host
    facts: HostFacts = field(default_factory=HostFacts)
    cluster: Cluster | None = None
    cluster_facts: ClusterFacts = field(default_factory=ClusterFacts)
    boards: Mapping[str, Board] = field(default_factory=dict)
    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    holders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def gpu(self, pci_id: str) -> Gpu | None:
        """Return the GPU at an address."""
        return self.host.gpu(pci_id)

    def device(self, pci_id: str) -> PciDevice | None:
        """Return the PCI function at an address, also one that is listed only with its GPU or NIC."""
        found = self.host.device(pci_id)
        if found is None:
            gpu = self.host.gpu(pci_id)
            found = gpu.pci if gpu is not None else None
        return found

    def nic(self, device: str) -> HostNic | None:
        """Return a NIC by its vmnic or its address."""
        return next((nic for nic in self.host.nics if device in (nic.device, nic.pci_id)), None)


@dataclass(frozen=True, slots=True)
class DesiredSetting:
    """One setting of one device and the value that is wanted, in the setting's canonical words.

    `is_derived` marks settings that follow from the VMs (`prepare: from_vms`); `note` is the reason.
    `cuts_off` is the host's own loss with it. `comes_back` is whether the plan gives the device back to the
    host, which can read it then: until then nothing is known of it. `tools_come` is whether the plan installs
    the tools that read it.
    """

    setting: str
    value: str
    device: str = ""
    is_derived: bool = False
    note: str = ""
    cuts_off: str = ""
    comes_back: bool = False
    tools_come: bool = False

    @property
    def id(self) -> str:
        """How it is named in marks and messages, as `SettingTarget.id`."""
        return f"{self.setting} {self.device}".rstrip()


@dataclass(frozen=True, slots=True)
class Reading:
    """A host's reading of a setting. `runtime` None means that the source reports only one value.

    `unread` says why nothing is known; then the values mean nothing. `is_absent` says that the host has no
    such setting at all, with the reason in `unread`.
    """

    configured: str | None = None
    runtime: str | None = None
    unread: str = ""
    is_absent: bool = False

    @property
    def in_force(self) -> str | None:
        """The value that holds now, as far as the source reports it."""
        return self.configured if self.runtime is None else self.runtime


@dataclass(frozen=True, slots=True)
class Instructions:
    """The setting's paragraph in the runbook. Texts may hold {host}, {device}, {value}, {before}.

    `client` is the path in the vSphere Client; `commands` are whole command lines with the
    tool named first (govc, esxcli, nvidia-smi, mlxconfig); `expected` their output; `verify` and
    `undo` are command lines too.
    """

    why: str
    client: str = ""
    commands: tuple[str, ...] = ()
    expected: str = ""
    verify: tuple[str, ...] = ()
    undo: tuple[str, ...] = ()


class Part(StrEnum):
    """Which part of an entry of `hosts` says a setting: the entry itself, or a rule for devices."""

    HOST = "host"
    GPU = "gpus"
    NIC = "nics"


@dataclass(frozen=True, slots=True)
class InFile:
    """The words of an entry of `hosts` for a host's reading: keys with values, none for a plain host's."""

    part: Part
    says: Callable[[str], Mapping[str, object]]


def _just(key: str, value: object, wanted: str, found: str) -> Mapping[str, object]:
    return {key: value} if found == wanted else {}


def only(part: Part, key: str, value: object, *, where: str) -> InFile:
    """Say one value of a key where a host shows that word, and nothing else."""
    return InFile(part, partial(_just, key, value, where))


class Invalidator(StrEnum):
    """The limit of a remembered value: another boot, another release, another host driver.

    New firmware, a value of mlxconfig's or nvidia-smi's that is pending, and a setting of the BIOS come into
    force with a boot, and are void with it.
    """

    BOOT = "boot"
    BUILD = "build"
    DRIVER = "driver"


@dataclass(frozen=True, slots=True)
class Remembering:
    """The rule for remembering a value that only a shell reports.

    `invalidated_by` are all its limits apart from its age, `attributes` how many custom attributes a host
    keeps for it. `words` are values that it may have: a digest is compared with theirs. `changes_unseen`
    returns the devices whose value changes while nothing of `invalidated_by` does: it is not remembered.
    """

    invalidated_by: tuple[Invalidator, ...]
    attributes: int
    words: tuple[str, ...]
    changes_unseen: Callable[[HostView, str], bool] = lambda _view, _device: False


@dataclass(frozen=True, slots=True)
class HostSetting:
    """One entry of the table.

    key: its name in plans, marks and reports: "graphics_type".
    title: the same in words, as shown: "graphics type".
    source: the source of the facts: a chapter of vendor documentation, an API type, "recalled".
    facts: the groups of facts for reading it; BASE is always read.
    desired_settings: an entry's requests for a host, device by device. `model` matches and the
        first-match rule are already resolved by `planning.hosts.match`.
    read: the host's reading of it, for a device.
    same: whether a reading's word is the wanted one.
    impact: the step until a written value is in force: NONE at once; SERVICE_RESTART of
        `service`; HOST_MAINTENANCE at once, with the host emptied; HOST_REBOOT; HOST_COLD_BOOT.
    group: writes of one group on one host at one moment become one call; `write` makes it of them,
        or several calls if the API needs that. If it returns nothing, the step is manual.
    remembered: how long a shell's reading holds; None if vCenter reports it, so that nothing need be
        remembered. There is no default: a new row has to state it.
    in_file: the plan file's words for a host's reading, or why there are none.
    after: keys that must be written before this one, if both change in the same phase.
    needs_in_force: keys that must be in force before this one can be written, if `has_need`.
    has_need: whether a desired setting has one of these needs: turning something off mostly has none.
    is_dropped_by_reboot: whether a reboot of the host resets it (for each desired setting).
    objects: why it must not be done here.
    other_way: a second way to the same end, for hosts that do not offer the first.
    by_image: whether the cluster's image brings it: the restart is then a remediation.
    show: the host as it will be with the desired setting in force, for placing VMs on it.
    by_hand: the text of the manual step, if no way exists.
    is_tried_first: whether it is written before the host is taken down: only that shows whether it can be.
    stays: why a rollback does not restore an earlier reading's word; "" if it does.
    """

    key: str
    title: str
    source: str
    desired_settings: Callable[[DesiredHosts, HostView], Iterable[DesiredSetting]]
    read: Callable[[HostView, str], Reading]
    write: Callable[[HostView, Sequence[DesiredSetting]], Sequence[HostWrite]]
    impact: Callable[[HostView, DesiredSetting], Impact]
    how: Callable[[HostView, DesiredSetting], Instructions]
    group: str
    remembered: Remembering | None
    in_file: InFile | str = ""
    facts: frozenset[FactGroup] = frozenset()
    service: str = ""
    after: tuple[str, ...] = ()
    needs_in_force: tuple[str, ...] = ()
    has_need: Callable[[DesiredSetting, str], bool] = lambda _desired, _key: True
    same: Callable[[str, str], bool] = operator.eq
    is_dropped_by_reboot: Callable[[HostView, DesiredSetting], bool] = lambda _view, _desired: False
    objects: Callable[[HostView, DesiredSetting], Objection | None] = lambda _view, _desired: None
    other_way: Callable[[HostView, Sequence[DesiredSetting]], HostWrite | None] = (
        lambda _view, _desired_settings: None
    )
    show: Callable[[Host, DesiredSetting], Host] = lambda host, _desired: host
    by_hand: Callable[[HostView, DesiredSetting], str] = lambda _view, _desired: ""
    is_tried_first: bool = False
    by_image: Callable[[DesiredSetting], bool] = lambda _desired: False
    stays: Callable[[str], str] = lambda _before: ""


def needs_of(setting: HostSetting, desired: DesiredSetting) -> tuple[str, ...]:
    """Return the keys that must be in force before a desired setting can be written."""
    return tuple(key for key in setting.needs_in_force if setting.has_need(desired, key))


def target(desired: DesiredSetting, reading: Reading) -> SettingTarget:
    """Return the reading that fulfills a desired setting."""
    before = None if reading.unread else reading.configured
    return SettingTarget(setting=desired.setting, device=desired.device, value=desired.value, before=before)


@dataclass(frozen=True, slots=True)
class EsxcliCall:
    """One command, as in `network.vswitch.standard.set`, with its long options as the shell takes them."""

    command: str
    options: tuple[tuple[str, str], ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The words to type."""
        return ("esxcli", *self.command.split("."), *(f"--{name}={value}" for name, value in self.options))

    @property
    def line(self) -> str:
        """The words to type, on one line, quoted for the host's shell."""
        return shlex.join(self.words)


def by_esxcli(calls: Sequence[EsxcliCall]) -> HostWrite | None:
    """Return the one write that makes these calls, None if there are none.

    Each goes over the shell with its options as listed; over vCenter the sender removes their dashes.
    """
    if not calls:
        return None
    if len(calls) > 1:
        return ShellWrite(commands=tuple(call.words for call in calls))
    return EsxcliWrite(command=calls[0].command, arguments=calls[0].options)
