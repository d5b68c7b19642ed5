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

    key: the name in edits, requests and messages.
    topic, name: the line of a plan's text, and the name there.
    source: the document with the facts.
    desired: the desired value for a VM of the plan; None if it has none.
    path: the target of the value: a path in the ConfigSpec ("bootOptions.bootDelay"), the extraConfig key, or
        the list of the cluster's overrides and a path in its `info` ("drsVmConfig.behavior").
    leaves: the value in the request, by paths, if that is not the value itself at `path`.
    read_path: the property to read for it; "" if `VmDetail` has a field for it.
    unset: the value if the server omits that property.
    read: a VM's current value; None if unknown.
    same: whether a VM has the value, if that requires more than equality.
    words: the value for a reader; "" for none.
    found_text: a VM's current value for a reader; None for none.
    plan_key: the key in the plan file; "" for values that are always computed.
    default: the default without the key, and its reason.
    in_file: the plan file's value, at `plan_key` or at `said_in`, for a VM's current value; a row without
        either has none.
    needs_saying: whether an exported plan file must state it, if that requires more than a difference from a
        plain VM's value or the template's.
    follows: the keys of the plan file from which it is computed if no key states it.
    values: all possible values, if a cluster's override must be read back.
    privilege: the privilege that vCenter requires.
    api, hardware: the API version and hardware version that introduced it.
    is_live: a running VM accepts it.
    is_of_creation: only a new VM gets it.
    is_always: a new VM gets it regardless of its template, since a clone may lose the template's value.
    govc: the govc command that sets it, with its flags; commands with the same name become one line.
    client: the steps in the vSphere Client if govc cannot set it, otherwise "".
    brought: whether a VM's current value came with devices that it now loses: it then returns to the
        template's value. None if no device sets it.
    undo: how to undo it manually; "" if setting the previous value is sufficient.
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
