"""A row of the table of VM settings: all of this project's facts on one setting of a VM.

Adding a setting is adding a row (and its key in `model.plan_file.vm_options`); nothing outside the table
names a single setting. Comparing, the edits, the request to vCenter, reading back, privileges, texts, the
runbook and the reference page follow from the rows. Devices are code of their own and answer the same
questions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from vgpu_cfg.changes.values import GPU_TOPIC
from vgpu_cfg.model.observed.vm import SettingValue, VmDetail
from vgpu_cfg.planning.findings.collection import Objection
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm


class Carrier(StrEnum):
    """The way of a setting to vCenter."""

    CONFIG = "ConfigSpec"
    """A field of the VM's ConfigSpec, by its path."""
    EXTRA_CONFIG = "extraConfig"
    """A pair of the ConfigSpec's extraConfig, by its key."""
    DEVICE = "device"
    """A device of the VM."""
    CLUSTER = "cluster"
    """An override that the VM's cluster keeps for it: the VM must exist."""


class Topic(StrEnum):
    """The line of a plan's text for a setting, in the order of the lines."""

    HARDWARE = "hardware"
    CPU = "CPU, mem"
    GPU = GPU_TOPIC
    OPTIONS = "options"
    NIC = "NIC"
    DISK = "disk"
    CLUSTER = "cluster"
    ATTRIBUTES = "attributes"


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted value of a VM. `is_default`: the plan file does not state it; `note` adds a reason.

    `is_anew`: it is written although the VM shows it, since the run adds missing parts to it.
    """

    value: SettingValue
    is_default: bool = False
    note: str = ""
    is_anew: bool = False


@dataclass(frozen=True, slots=True)
class FoundVm:
    """An existing VM, for which a plan file with its present values is written.

    `template` is the detail of its source, None if unknown. `gpu_nodes` are the NUMA nodes of the GPUs that
    it holds, empty if unknown. `overrides` are its cluster's for it, by the keys of the table.
    """

    detail: VmDetail
    template: VmDetail | None = None
    gpu_nodes: frozenset[int] = frozenset()
    overrides: Mapping[str, SettingValue] = field(default_factory=dict)

    @property
    def has_gpus(self) -> bool:
        """Whether it has GPUs of any kind."""
        return bool(self.detail.vgpus or self.detail.passthrough_gpus)


def spelled(value: SettingValue) -> str:
    """Spell a value for a reader."""
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def as_it_is(value: SettingValue) -> object:
    """Say a value in a plan file as a VM shows it."""
    return value


def as_stated(key: str) -> Callable[[PlacedVm], Wanted | None]:
    """Request the plan file's value at a key, and nothing if it states none."""

    def desired(vm: PlacedVm) -> Wanted | None:
        stated = vm.stated(key)
        return Wanted(stated) if isinstance(stated, bool | int | str) else None

    return desired


@dataclass(frozen=True, slots=True)
class VmSetting:
    """One row of the table.

    key: how edits, requests and messages name it.
    topic, name: the line of a plan's text, and what it is called there.
    source: where the facts stand.
    desired: what a VM of the plan shall have; None where nothing is asked of it.
    path: where the value goes: a path in the ConfigSpec ("bootOptions.bootDelay"), the extraConfig key, or
        the list of the cluster's overrides and a path in its `info` ("drsVmConfig.behavior").
    leaves: the value as it goes over the wire, by paths; where that is not the value itself at `path`.
    read_path: the property that is read for it; "" where `VmDetail` has a field of its own for it.
    unset: what holds where the server leaves that property out.
    read: what a VM shows of it, None where that is not known.
    same: whether a VM shows the value; where that is more than being equal.
    words: the value for a reader, "" for none. found_text: what a VM shows, None for nothing.
    plan_key: the key of the plan file that states it; "" for what is always computed. default: what holds
        where the plan file does not state it, and why.
    in_file: what a plan file says, at `plan_key` or else at `said_in`, of a value that a VM shows; a row
        without either has none. needs_saying: whether it must be said, where that is more than being another
        value than that of a plain VM, or than the template's.
    follows: the keys of the plan file that it is computed from, where none states it.
    values: all that it can be, where a cluster's override is to be read back.
    privilege: what vCenter asks of the account. api, hardware: the API version and the hardware version that
        brought it.
    is_live: a running VM takes it. is_of_creation: only a new VM gets it. is_always: a new VM gets it
        whatever its template says, since a clone may drop what its template has.
    govc: the command of govc that sets it, with its flags; commands of one name become one line.
    client: what to set in the vSphere Client, where govc has no word for it; "" where it has.
    brought: whether what a VM shows came with devices that it gives up now: it goes with them, to what the
        VM's template has. None for what no device brings.
    undo: how it is taken back by hand; "" where setting what was before does it.
    objects: why a VM must not be given the value.
    """

    key: str
    topic: Topic
    name: str
    source: str
    desired: Callable[[PlacedVm], Wanted | None]
    path: str = ""
    carrier: Carrier = Carrier.CONFIG
    leaves: Callable[[SettingValue], Mapping[str, SettingValue]] | None = None
    read_path: str = ""
    unset: SettingValue | None = None
    read: Callable[[VmDetail], SettingValue | None] | None = None
    same: Callable[[SettingValue, VmDetail], bool] | None = None
    text: Callable[[SettingValue], str] = spelled
    found_text: Callable[[VmDetail], str | None] | None = None
    plan_key: str = ""
    default: str = ""
    in_file: Callable[[SettingValue], object] | None = None
    said_in: str = ""
    needs_saying: Callable[[FoundVm, SettingValue], bool] | None = None
    follows: tuple[str, ...] = ()
    values: tuple[SettingValue, ...] = ()
    privilege: str = ""
    api: str = ""
    hardware: int = 0
    is_live: bool = False
    is_of_creation: bool = False
    is_always: bool = False
    govc: Callable[[SettingValue], tuple[str, ...]] = lambda _value: ()
    client: Callable[[SettingValue], str] = lambda _value: ""
    brought: Callable[[PlacedVm], bool] | None = None
    undo: str = ""
    objects: Callable[[PlacedVm, SettingValue], Objection | None] = lambda _vm, _value: None

    def on_wire(self, value: SettingValue) -> Mapping[str, SettingValue]:
        """Return the fields that carry a value, by their paths."""
        return {self.path: value} if self.leaves is None else self.leaves(value)

    def shown(self, detail: VmDetail) -> SettingValue | None:
        """Return a VM's present value of the setting, None if unknown."""
        return detail.options.get(self.key, self.unset) if self.read is None else self.read(detail)

    def holds(self, value: SettingValue, detail: VmDetail) -> bool:
        """Whether a VM shows a value."""
        return self.shown(detail) == value if self.same is None else self.same(value, detail)

    def text_of(self, detail: VmDetail) -> str | None:
        """Spell a VM's present value for a reader, None for nothing."""
        if self.found_text is not None:
            return self.found_text(detail)
        found = self.shown(detail)
        return None if found is None else self.text(found) or None

    def said(self, vm: FoundVm) -> object | None:
        """Return a plan file's words for a VM's present value; None if none are needed."""
        found = vm.overrides.get(self.key) if self.carrier is Carrier.CLUSTER else self.shown(vm.detail)
        if found is None or self.in_file is None:
            return None
        if self.needs_saying is not None:
            return self.in_file(found) if self.needs_saying(vm, found) else None
        is_plain = found == self.unset and (vm.template is None or self.shown(vm.template) == found)
        return None if is_plain else self.in_file(found)
