"""The tables that a plan's changes use to describe themselves: settings, and their surroundings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.changes.by_hand import Part, filled
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.tables import VmRow
from vgpu_cfg.changes.values import Edit, SettingTarget, extra_config_path
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.host_settings import table
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView
from vgpu_cfg.planning.vms.settings.setting import Topic
from vgpu_cfg.planning.vms.settings.table import rows_of, vm_setting

SettingsLookup = Callable[[str], HostSetting]
"""Returns an entry of the table of host settings by its key. Raises KeyError if there is none."""
_RESTART = re.compile(
    r"esxcli system shutdown|/etc/init\.d/\w+ restart|govc host\.service .*\brestart\b|reboot\b"
)
_SET_BACK = "in the vSphere Client, set it back to {before}"
_DEVICES = {
    "gpu": (Topic.GPU, ""),
    "nic": (Topic.NIC, ""),
    "nic mac": (Topic.NIC, "MAC"),
    "disk": (Topic.DISK, ""),
}
"""The topics of edits without a row in the table."""


@dataclass(frozen=True, slots=True)
class PlanTables:
    """The tables for the changes of a plan.

    `views` holds each host of the plan as it was read, by moid: without it only a setting's values are shown.
    """

    plan: Plan | None = None
    views: Mapping[str, HostView] = field(default_factory=dict)
    lookup: SettingsLookup = table.setting

    def vm_rows(self, settings: Mapping[str, SettingValue]) -> Iterable[tuple[VmRow, SettingValue]]:
        """Return the row of each setting of a VM with its value."""
        return rows_of(settings)

    def topic_of(self, edit: Edit) -> tuple[str, str]:
        """Return an edit's topic, and its name there ("" if the topic suffices)."""
        return topic_of(edit)

    def setting_part(self, target: SettingTarget, host: str, moid: str | None) -> Part:
        """Take a setting's part from the table; without a view of the host, or an entry, only its values."""
        heading = self.setting_label(target)
        rows = ((heading, target.before or "", target.value),)
        row, view = self._row(target), self.views.get(moid or "")
        how = None
        if row is not None and view is not None:
            how = row.how(view, DesiredSetting(target.setting, target.value, target.device))
        if how is None:
            return Part(heading=heading, rows=rows)
        part = Part(
            heading=heading,
            why=how.why,
            client=how.client,
            commands=_without_restarts(how.commands),
            expected=how.expected,
            verify=how.verify,
            undo=_without_restarts(how.undo) or ((_SET_BACK,) if how.undo else ()),
            rows=rows,
        )
        return filled(part, host=host, device=target.device, value=target.value, before=target.before)

    def setting_label(self, target: SettingTarget) -> str:
        """Return the title of a host's setting, with its device."""
        row = self._row(target)
        return f"{row.title} {target.device}".rstrip() if row is not None else target.id

    def stays(self, target: SettingTarget) -> str:
        """Return why a host's setting cannot be restored; "" if it can."""
        row = self._row(target)
        return row.stays(target.before) if row is not None and target.before is not None else ""

    def host_name(self, moid: str) -> str:
        """Return the name of a host; its moid if the plan does not have it."""
        if (view := self.views.get(moid)) is not None:
            return view.host.name
        subjects = (change.subject for change in (self.plan.changes if self.plan is not None else ()))
        return next((one.name for one in subjects if (one.kind, one.moid) == ("host", moid)), moid)

    def started_with(self, vm: str) -> tuple[str, ...]:
        """Return the VMs that must not be started together with this one, sorted."""
        queues = self.plan.contests if self.plan is not None else ()
        queue = next((one for one in queues if vm in one.starts), None)
        return () if queue is None else tuple(sorted(one for one in queue.starts if one != vm))

    def _row(self, target: SettingTarget) -> HostSetting | None:
        """Return a setting's entry, None if a plan of another release names one that is not in the table."""
        try:
            return self.lookup(target.setting)
        except KeyError:
            return None


def topic_of(edit: Edit) -> tuple[str, str]:
    """Return an edit's topic, and its name there ("" if the topic suffices)."""
    key = edit.key
    setting = vm_setting(key)
    if extra_config_path(key) in edit.sets and (setting is None or setting.path != key):
        return Topic.OPTIONS, key
    if setting is not None:
        return setting.topic, setting.name
    return _DEVICES.get(key, (Topic.OPTIONS, key) if "." in key or key.isupper() else (key, ""))


def _without_restarts(lines: Sequence[str]) -> tuple[str, ...]:
    """Leave out restarts: a plan has them as steps of their own, one for all settings that need it."""
    return tuple(line for line in lines if not _RESTART.match(line))
