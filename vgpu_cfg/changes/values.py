"""The values of changes: subjects, edits, settings, places, and lines of words.

An edit reads in two ways: in running text, and as a line of a plan.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import SettingValue

GPU_TOPIC = "GPU"
"""The topic whose line says where ESXi will put the devices."""
Words = tuple[tuple[str, str], ...]
"""A line in parts, each with the style that it is shown in, "" for none."""
Row = tuple[str, Words]
"""A line with the text of its first column."""


def is_nothing(value: object) -> bool:
    """Whether a field says nothing, so that it is not written: a digest from before it still holds."""
    return not value


class Impact(StrEnum):
    """The impact of a change, from nothing to a cold boot of the host."""

    NONE = "none"
    SERVICE_RESTART = "service-restart"
    VMOTION = "vmotion"
    POWER_CYCLE = "power-cycle"
    HOST_MAINTENANCE = "host-maintenance"
    HOST_REBOOT = "host-reboot"
    HOST_COLD_BOOT = "host-cold-boot"


class Subject(Frozen):
    """The subject of a change or a finding; `kind` is "vm", "host", "cluster", "network" or "plan"."""

    kind: str
    name: str
    moid: str | None = None


class VmRef(Frozen):
    """A VM by name; `moid` is None until it has been made."""

    name: str
    moid: str | None = None


class Placement(Frozen):
    """The place of a VM, new or unchanged.

    `gpu_pci_ids` are the GPUs it is expected to get, one per device; they are a promise only if `is_certain`
    (fixed passthrough, or there was no choice). `numa_nodes` is empty for `numa: off`, and if the host
    reports none. `nic_pci_ids` are the physical functions of its NICs, in their order. `choice` is the reason
    for the profiles of GPUs that are requested by memory.
    """

    vm: str
    host_moid: str
    host_name: str
    gpu_pci_ids: tuple[str, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    is_certain: bool = False
    nic_pci_ids: tuple[str, ...] = ()
    choice: str = ""

    @property
    def as_compared(self) -> dict[str, object]:
        """The part of it in which two plans that do the same agree."""
        return self.model_dump(mode="json", exclude={"nic_pci_ids", "choice"})


class HostRef(Frozen):
    """A host by name and managed object id."""

    name: str
    moid: str


class SettingTarget(Frozen):
    """One setting of one device and its wanted value.

    `setting` is a key of the settings table, `device` a PCI address, a vmnic, or empty for the host itself.
    `value` and `before` are the setting's own canonical words.
    """

    setting: str
    device: str = ""
    value: str
    before: str | None = None

    @property
    def id(self) -> str:
        """How it is named in marks and messages: `mig 0000:21:00.0`, `ats`."""
        return f"{self.setting} {self.device}".rstrip()


class Edit(Frozen):
    """One value before and after, as shown to a reader; None is "absent".

    `is_default` marks a value that the plan file does not state, `note` adds a reason. `sets` are the values
    sent for it: each path in the request with its value, as in {"bootOptions.efiSecureBootEnabled": "true"}.
    """

    key: str
    before: str | None = None
    after: str | None = None
    is_default: bool = False
    note: str = ""
    sets: Mapping[str, str] = Field(default_factory=dict)


def plain(text: str, style: str = "") -> Words:
    """Return a line of one part."""
    return ((text, style),)


def extra_config_path(key: str) -> str:
    """Return how the path of an extraConfig pair in a request is written."""
    return f"extraConfig[{key}]"


def must_word(*, is_mandatory: bool) -> str:
    """Spell whether a rule must hold."""
    return "must" if is_mandatory else "should"


def wire_text(value: SettingValue) -> str:
    """Spell a value as it goes over the wire."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def edit_text(edit: Edit) -> str:
    """Say an edit in a few words: "cpus 16 -> 32"."""
    if edit.before is None:
        return f"{edit.key} {edit.after}"
    if edit.after is None:
        return f"{edit.key} {edit.before} -> none"
    return f"{edit.key} {edit.before} -> {edit.after}"


def edit_value(edit: Edit) -> str:
    """Write the value after an edit, "none" where it goes, with the mark of a default."""
    return f"{'none' if edit.after is None else edit.after}{'*' if edit.is_default else ''}"


def changed(edit: Edit) -> Words:
    """Write an edit's two values: "+ new", "- old", or "old -> new"."""
    if edit.before is None:
        return (*plain(f"+ {edit_value(edit)}"), *_note(edit))
    if edit.after is None:
        return ((f"- {edit.before}", "red"), *_note(edit))
    return (*plain(f"{edit.before} -> {edit_value(edit)}"), *_note(edit))


def set_to(edit: Edit, *, unset: str) -> Words:
    """Write the two values of a setting; `unset` is said of one that had none."""
    before = unset if edit.before is None else edit.before
    return (*plain(f"{before} -> {edit_value(edit)}".lstrip()), *_note(edit))


def plain_rows(edits: tuple[Edit, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return edits as the rows of a table: what, before, after, as they are."""
    return tuple((edit.key, edit.before or "", edit.after or "") for edit in edits)


def table_rows(edits: tuple[Edit, ...]) -> tuple[tuple[str, str, str], ...]:
    """Return edits as the rows of a table: what, before, after; a default is marked."""
    return tuple((edit.key, edit.before or "", edit_value(edit)) for edit in edits)


def _note(edit: Edit) -> Words:
    return ((f"  {edit.note}", "dim"),) if edit.note else ()
