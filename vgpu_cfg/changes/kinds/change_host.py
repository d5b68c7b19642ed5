"""Something is written to a host.

A host write is one API call: all graphics settings of a host, the option string of one kernel module, one
command on its shell. The `settings` of a change are the values a reading must show afterwards.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import Face, HostChangeBase
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import HOST, Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach, users_of
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, HostRef, Placement, Row, SettingTarget, set_to, wire_text
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.host_facts import FactGroup, HostAttribute, HostSwitch
from vgpu_cfg.model.observed.inventory import Host, Inventory, NetworkKind
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.vgpu import Sharing, VgpuMode, VgpuProfile

_LOST_MODES = frozenset({"mig", "ecc"})
"""Settings that a GPU in use by another VM is not given without approval: the VM may not start again."""
_GPU_MODES = frozenset({"mig", "ecc", "vgpu_mode", "gpu_passthrough", "graphics_type", "gpu_graphics_type"})
"""Host settings after which a VM that is powered off may no longer get the GPU that it had."""


class WriteBase(Frozen):
    """The questions that every write to a host answers."""

    needs_shell: ClassVar[bool] = False
    """Whether it goes through the host's shell, not through vCenter."""

    @property
    def depots(self) -> tuple[str, ...]:
        """The depots from which it installs packages."""
        return ()

    @property
    def joins(self) -> str:
        """The network of the VMkernel NIC that it makes or changes, by name; "" for none."""
        return ""

    def on_network(self, moid: str) -> Self:
        """Return it with the id of the network that it joins, if it has none yet."""
        return self

    def typed(self, host: str) -> tuple[str, ...]:
        """Return the command lines that do the same; () for none."""
        return ()

    def disturbs(self, reach: Reach, host: HostRef) -> Iterable[Disturbed]:
        """Yield the objects that it disturbs, apart from VMs that start with their GPU in another mode."""
        return ()

    def sets_gpu_mode(self, host: Host | None) -> bool:
        """Whether it gives a GPU another mode, of a setting that may; `host` is as it was read."""
        return True

    @abstractmethod
    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        """Yield the privileges the account needs; `host` is the host's moid."""


class GraphicsWrite(WriteBase):
    """`UpdateGraphicsConfig`, on the object read back; values that are None or not listed stay.

    `graphics_types` and `vgpu_modes` are by PCI address.
    """

    kind: Literal["graphics"] = "graphics"
    default_type: GraphicsType | None = None
    assignment_policy: AssignmentPolicy | None = None
    graphics_types: Mapping[str, GraphicsType] = Field(default_factory=dict)
    vgpu_modes: Mapping[str, VgpuMode] = Field(default_factory=dict)

    def sets_gpu_mode(self, host: Host | None) -> bool:
        """Whether a GPU gets another type or mode: each may keep its own under another default."""
        for gpu in host.gpus if host is not None else ():
            follows = gpu.configured_graphics_type or self.default_type or gpu.graphics_type
            after = self.graphics_types.get(gpu.pci_id) or follows
            if after != gpu.graphics_type or self.vgpu_modes.get(gpu.pci_id) not in (None, gpu.vgpu_mode):
                return True
        return host is None

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_SETTINGS, host)


class PassthroughDevice(Frozen):
    """The way to hand out one PCI function; None leaves it unchanged."""

    pci_id: str
    is_passthrough: bool | None = None
    label: str | None = None
    virtual_functions: int | None = None


class PassthroughWrite(WriteBase):
    """`UpdatePassthruConfig` for some functions (`SriovConfig` where virtual functions are set)."""

    kind: Literal["passthrough"] = "passthrough"
    devices: tuple[PassthroughDevice, ...]

    def sets_gpu_mode(self, host: Host | None) -> bool:
        return any(one.is_passthrough is not None for one in self.devices)

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_PASSTHROUGH, host)
        if any(at.is_nic(host, device.pci_id) for device in self.devices):
            yield from at.attributes(host, privileges.CORDON, HOST, (HostAttribute.VMNICS,))


class OptionWrite(WriteBase):
    """`OptionManager.UpdateOptions` of a host. The type of each value goes over the wire: bool, int, str."""

    kind: Literal["option"] = "option"
    options: Mapping[str, bool | int | str]

    def typed(self, host: str) -> tuple[str, ...]:
        option = ("govc", "host.option.set", "-host", host)
        return tuple(command(*option, key, wire_text(value)) for key, value in self.options.items())

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_OPTIONS, host)


class ModuleWrite(WriteBase):
    """`UpdateModuleOptionString`: the whole, merged option string of one kernel module.

    `before` is the string that it was merged from: if the string differs at the time of writing, it was
    changed meanwhile, and nothing is written.
    """

    kind: Literal["module"] = "module"
    module: str
    options: str
    before: str = ""

    def typed(self, host: str) -> tuple[str, ...]:
        words = ("esxcli", "system", "module", "parameters", "set", "-m", self.module, "-p")
        return (command(*words, self.options),)

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_SETTINGS, host)


class EsxcliWrite(WriteBase):
    """One esxcli command, through vCenter or, if that is not possible, on the host's shell.

    `arguments` are long options without dashes, in order; one that is listed twice is a list.
    """

    kind: Literal["esxcli"] = "esxcli"
    command: str
    arguments: tuple[tuple[str, str], ...] = ()

    @property
    def depots(self) -> tuple[str, ...]:
        return tuple(value for name, value in self.arguments if name == "depot")

    def typed(self, host: str) -> tuple[str, ...]:
        options = (f"--{name}={value}" for name, value in self.arguments)
        return (command("esxcli", *self.command.split("."), *options),)

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        """Yield nothing: what esxcli through vCenter needs is documented nowhere."""
        yield from ()


class ShellWrite(WriteBase):
    """Commands on the host's shell, one argument list each; the first that fails ends them."""

    needs_shell = True

    kind: Literal["shell"] = "shell"
    commands: tuple[tuple[str, ...], ...]

    def typed(self, host: str) -> tuple[str, ...]:
        return tuple(map(shlex.join, self.commands))

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        """Yield the privileges to start SSH if it is off."""
        yield Needed(privileges.HOST_SERVICES, host)


class RulesetWrite(WriteBase):
    """Open or close a ruleset of the host's firewall."""

    kind: Literal["ruleset"] = "ruleset"
    ruleset: str
    is_enabled: bool

    def typed(self, host: str) -> tuple[str, ...]:
        words = (f"--ruleset-id={self.ruleset}", f"--enabled={wire_text(self.is_enabled)}")
        return (command("esxcli", "network", "firewall", "ruleset", "set", *words),)

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_SERVICES, host)


class VmknicWrite(WriteBase):
    """Make a VMkernel NIC on a network (`device` None), or change its address or MTU.

    `address` is CIDR or "dhcp", None where it stays.
    """

    kind: Literal["vmknic"] = "vmknic"
    device: str | None = None
    network_moid: str = ""
    network_name: str = ""
    address: str | None = None
    mtu: int | None = None

    @property
    def joins(self) -> str:
        return self.network_name

    def on_network(self, moid: str) -> Self:
        return self if self.network_moid else self.model_copy(update={"network_moid": moid})

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_NETWORK, host)
        if self.network_moid:
            yield Needed(privileges.ASSIGN_NETWORK, self.network_moid)


class SwitchWrite(WriteBase):
    """Set the MTU or the uplinks of a standard switch of the host; None stays.

    `before` are the uplinks that the new ones were made from: where others are there by the time of
    writing, nothing is written.
    """

    kind: Literal["switch"] = "switch"
    switch: str
    mtu: int | None = None
    uplinks: tuple[str, ...] | None = None
    before: tuple[str, ...] = ()

    def disturbs(self, reach: Reach, host: HostRef) -> Iterable[Disturbed]:
        """Say whose links go down: another MTU, or an uplink less, disturbs all on it on this host."""
        found = reach.observed.host_by_moid.get(host.moid)
        loses = self.uplinks is not None and set(self.before) - set(self.uplinks)
        if found is None or (self.mtu is None and not loses):
            return
        switch = _standard(found, self.switch, reach.observed)
        if switch is not None and not switch.uplinks:
            return
        yield reach.thing("host", found.name, found.moid, Experience.LINK_DOWN, through=self.switch)
        for vm in _on_standard(found, reach.observed):
            yield reach.vm(vm, Experience.LINK_DOWN, through=self.switch)

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.HOST_NETWORK, host)


class LicenceWrite(WriteBase):
    """Assign a licence to the host; `secret` names the plan file's secret that holds the key."""

    kind: Literal["licence"] = "licence"
    secret: str

    def privileges(self, host: str, at: Places) -> Iterator[Needed]:
        return at.at_root(privileges.LICENCE)


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
    """Write one thing to a host. Settings that do not take effect at once wait for a later restart.

    `other_way` is used if the first way is refused as not offered, never if it failed.
    """

    face = Face("set", "settings", is_task=False)

    kind: Literal["change_host"] = "change_host"
    write: HostWrite
    other_way: HostWrite | None = None
    settings: tuple[SettingTarget, ...]

    @property
    def writes(self) -> tuple[SettingTarget, ...]:
        return self.settings

    @property
    def brings(self) -> tuple[SettingTarget, ...]:
        return self.settings

    @property
    def differing(self) -> tuple[Edit, ...]:
        """Return the settings to be written; a setting that a reboot would drop is right until then."""
        pairs = zip(self.edits, self.settings, strict=False)
        return tuple(edit for edit, target in pairs if edit.before or target.before is None)

    def likeness(self, name: str) -> object:
        return self.write.kind

    def head(self, place: Placement | None) -> None:
        return None

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, set_to(edit, unset="")) for edit in self.edits)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return one part per setting; the first has the commands of the whole write if it can be typed.

        The write merges what several settings want of one option string, as no setting's own part does.
        """
        typed = self.write.typed(self.host.name)
        parts = []
        for index, target in enumerate(self.settings):
            part = tables.setting_part(target, self.host.name, self.host.moid)
            if typed:
                shared = " (set together with the other values of this step)" if index else ""
                part = replace(part, heading=part.heading + shared, commands=() if index else typed)
            parts.append(part)
        return tuple(parts) or (Part(commands=typed),)

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        yield from self.write.disturbs(reach, self.host)
        host = reach.observed.host_by_moid.get(self.host.moid)
        is_of_gpus = any(target.setting in _GPU_MODES for target in self.settings)
        if is_of_gpus and self.write.sets_gpu_mode(host):
            yield from self._strands(reach)

    def _strands(self, reach: Reach) -> Iterator[Disturbed]:
        """List the VMs that are powered off here with GPUs in their settings: they start in another mode."""
        for vm in reach.observed.vms_by_host.get(self.host.moid, ()):
            detail = vm.detail
            if vm.is_on or vm.is_template or vm.moid in reach.own or detail is None:
                continue
            if detail.vgpus or detail.passthrough_gpus:
                is_lost = any(_may_strand(target, detail) for target in self.settings)
                needs = Approval.IRREVERSIBLE if is_lost else None
                note = "it may not restart" if is_lost else "when it restarts"
                yield reach.vm(vm, Experience.GPU_MODE, through=self.host.name, note=note, needs=needs)

    def privileges(self, at: Places) -> Iterator[Needed]:
        """Yield the privileges of the write; its other way is used only if the host lacks the first."""
        yield from self.write.privileges(self.host.moid, at)
        yield from at.host_mark(self.host.moid)

    def no_way_back(self, tables: Tables) -> Iterator[str]:
        for target in self.settings:
            words = tables.setting_label(target)
            if target.before is None:
                yield f"the current value of {words} is unknown"
            elif why := tables.stays(target):
                yield f"{words}: {why}"


def _standard(host: Host, name: str, observed: Inventory) -> HostSwitch | None:
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or FactGroup.BASE in facts.unread:
        return None
    return next((one for one in facts.switches if one.name == name and one.switch_uuid is None), None)


def _on_standard(host: Host, observed: Inventory) -> Iterable[Vm]:
    """Return the running VMs that may be on a standard switch: which portgroup is on which is not read."""
    own = [
        one
        for one in observed.networks
        if one.moid in host.network_moids and one.kind is NetworkKind.STANDARD
    ]
    return users_of(own, observed, hosts=[host.moid], among=observed.vms_by_host.get(host.moid, ()))


def _may_strand(target: SettingTarget, detail: VmDetail) -> bool:
    """Whether a VM that is powered off may not start again with another MIG or ECC mode of a GPU.

    It has the GPU itself, or vGPUs that this mode does not give; which GPU gives them is ESXi's choice.
    """
    if target.setting not in _LOST_MODES:
        return False
    if any(target.device == (one.pci_id or one.assigned_id) for one in detail.passthrough_gpus):
        return True
    if target.setting == "ecc":
        return bool(detail.vgpus)
    given = Sharing.MIG if target.value == "enabled" else Sharing.TIME_SLICED
    return any(_sharing(one.profile) is not given for one in detail.vgpus)


def _sharing(profile: str) -> Sharing | None:
    try:
        return VgpuProfile.parse(profile).sharing
    except ValueError:
        return None
