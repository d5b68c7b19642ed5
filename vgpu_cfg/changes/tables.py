"""The tables that changes use to describe themselves: settings of VMs and hosts, and their surroundings.

The tables are in packages above this one, so descriptions know them only by protocols.
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
        """The setting's name below its topic."""

    @property
    def privilege(self) -> str:
        """The privilege that vCenter requires."""

    @property
    def undo(self) -> str:
        """The manual undo; "" if setting the earlier value does it."""

    @property
    def is_live(self) -> bool:
        """Whether a running VM takes it."""

    @property
    def govc(self) -> Callable[[SettingValue], tuple[str, ...]]:
        """The command of govc that sets a value, with its flags; () for none."""

    @property
    def client(self) -> Callable[[SettingValue], str]:
        """The setting in the vSphere Client; "" if govc does it."""


VmRows = Callable[[Mapping[str, SettingValue]], Iterable[tuple[VmRow, SettingValue]]]
"""Returns the row of each setting with its value."""


class Tables(Protocol):
    """The tables that a change uses to describe itself."""

    def vm_rows(self, settings: Mapping[str, SettingValue]) -> Iterable[tuple[VmRow, SettingValue]]:
        """Return the row of each setting of a VM with its value."""

    def topic_of(self, edit: Edit) -> tuple[str, str]:
        """Return an edit's topic, and its name there, "" if the topic suffices."""

    def setting_part(self, target: SettingTarget, host: str, moid: str | None) -> Part:
        """Return the manual steps to set a setting of a host."""

    def setting_label(self, target: SettingTarget) -> str:
        """Return the title of a host's setting, with its device."""

    def stays(self, target: SettingTarget) -> str:
        """Return why a host's setting cannot be restored; "" if it can."""

    def host_name(self, moid: str) -> str:
        """Return the name of a host."""

    def started_with(self, vm: str) -> tuple[str, ...]:
        """Return the VMs that must not be started together with this one."""
