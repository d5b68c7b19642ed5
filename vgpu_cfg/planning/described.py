"""What the changes of a plan look up to describe themselves: tables of settings, and what is around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from vgpu_cfg.changes.tables import VmRow
from vgpu_cfg.changes.values import Edit, SettingTarget, extra_config_path
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.host_settings import table
from vgpu_cfg.planning.host_settings.entry import HostSetting
from vgpu_cfg.planning.vms.settings.setting import Topic
from vgpu_cfg.planning.vms.settings.table import rows_of, vm_setting

SettingsLookup = Callable[[str], HostSetting]
"""Returns an entry of the table of host settings by its key. Raises KeyError if there is none."""
_DEVICES = {
    "gpu": (Topic.GPU, ""),
    "nic": (Topic.NIC, ""),
    "nic mac": (Topic.NIC, "MAC"),
    "disk": (Topic.DISK, ""),
}
"""The topics of what the table has no row for."""


@dataclass(frozen=True, slots=True)
class PlanTables:
    """What the changes of a plan look up."""

    lookup: SettingsLookup = table.setting

    def vm_rows(self, settings: Mapping[str, SettingValue]) -> Iterable[tuple[VmRow, SettingValue]]:
        """Return the row of each setting of a VM with its value."""
        return rows_of(settings)

    def topic_of(self, edit: Edit) -> tuple[str, str]:
        """Return the topic under which an edit is told, and its name there ("" where the topic says it)."""
        return topic_of(edit)

    def setting_label(self, target: SettingTarget) -> str:
        """Return the title of a host's setting, with its device."""
        row = self._row(target)
        return f"{row.title} {target.device}".rstrip() if row is not None else target.id

    def stays(self, target: SettingTarget) -> str:
        """Return why a host's setting cannot be put back to what it was; "" if it can."""
        row = self._row(target)
        return row.stays(target.before) if row is not None and target.before is not None else ""

    def _row(self, target: SettingTarget) -> HostSetting | None:
        """Return a setting's entry, None if a plan of another release names one that is not in the table."""
        try:
            return self.lookup(target.setting)
        except KeyError:
            return None


def topic_of(edit: Edit) -> tuple[str, str]:
    """Return the topic under which an edit is told, and its name there ("" where the topic says it)."""
    key = edit.key
    setting = vm_setting(key)
    if extra_config_path(key) in edit.sets and (setting is None or setting.path != key):
        return Topic.OPTIONS, key
    if setting is not None:
        return setting.topic, setting.name
    return _DEVICES.get(key, (Topic.OPTIONS, key) if "." in key or key.isupper() else (key, ""))
