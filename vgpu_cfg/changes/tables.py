"""What changes look up to describe themselves: rows of settings of VMs and hosts, and what is around them.

The tables stand in rooms above this one, so descriptions know them by what they ask of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from vgpu_cfg.changes.by_hand import Part
from vgpu_cfg.changes.values import Edit, SettingTarget
from vgpu_cfg.model.observed.vm import SettingValue


class VmRow(Protocol):
    """A row of the table of VM settings."""

    @property
    def name(self) -> str:
        """What the setting is called below its topic."""

    @property
    def privilege(self) -> str:
        """What vCenter asks of the account."""

    @property
    def undo(self) -> str:
        """How it is taken back by hand; "" where setting what was before does it."""

    @property
    def is_live(self) -> bool:
        """Whether a running VM takes it."""

    @property
    def govc(self) -> Callable[[SettingValue], tuple[str, ...]]:
        """The command of govc that sets a value, with its flags; () for none."""

    @property
    def client(self) -> Callable[[SettingValue], str]:
        """What to set in the vSphere Client; "" where govc does it."""


VmRows = Callable[[Mapping[str, SettingValue]], Iterable[tuple[VmRow, SettingValue]]]
"""Returns the row of each setting with its value."""


class Tables(Protocol):
    """What a change looks up to describe itself."""

    def vm_rows(self, settings: Mapping[str, SettingValue]) -> Iterable[tuple[VmRow, SettingValue]]:
        """Return the row of each setting of a VM with its value."""

    def topic_of(self, edit: Edit) -> tuple[str, str]:
        """Return the topic under which an edit is told, and its name there, "" if the topic says it."""

    def setting_part(self, target: SettingTarget, host: str, moid: str | None) -> Part:
        """Tell how a setting of a host is set by hand."""

    def setting_label(self, target: SettingTarget) -> str:
        """Return the title of a host's setting, with its device."""

    def stays(self, target: SettingTarget) -> str:
        """Return why a host's setting cannot be put back to what it was; "" if it can."""

    def host_name(self, moid: str) -> str:
        """Return the name of a host."""

    def started_with(self, vm: str) -> tuple[str, ...]:
        """Return the VMs that must not be started together with this one."""
