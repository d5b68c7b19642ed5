"""The table of all VM settings that this tool knows, in the order in which a plan tells them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.vms.settings.cluster_rows import CLUSTER_SETTINGS
from vgpu_cfg.planning.vms.settings.cpu_rows import CPU_SETTINGS
from vgpu_cfg.planning.vms.settings.extra_config_rows import EXTRA_CONFIG_SETTINGS
from vgpu_cfg.planning.vms.settings.hardware_rows import HARDWARE_SETTINGS
from vgpu_cfg.planning.vms.settings.setting import Carrier, VmSetting

VM_SETTINGS: tuple[VmSetting, ...] = (
    *HARDWARE_SETTINGS,
    *CPU_SETTINGS,
    *EXTRA_CONFIG_SETTINGS,
    *CLUSTER_SETTINGS,
)

_BY_KEY: Mapping[str, VmSetting] = {setting.key: setting for setting in VM_SETTINGS}

READ_PATHS: Mapping[str, VmSetting] = {
    setting.read_path: setting for setting in VM_SETTINGS if setting.read_path
}
"""The properties that are read for the rows alone, with their rows."""


def vm_setting(key: str) -> VmSetting | None:
    """Return the row with a key, None where there is none: a device, or a pair that the plan file states."""
    return _BY_KEY.get(key)


def rows_of(settings: Mapping[str, SettingValue]) -> Iterator[tuple[VmSetting, SettingValue]]:
    """Yield the row of each setting with its value, in the order of the table."""
    for setting in VM_SETTINGS:
        if setting.key in settings:
            yield setting, settings[setting.key]


def overrides(leaves: Mapping[str, SettingValue]) -> Iterator[tuple[str, SettingValue]]:
    """Yield the rows and values that a cluster's override of a VM says, by what its fields hold."""
    for setting in VM_SETTINGS:
        if setting.carrier is Carrier.CLUSTER:
            for value in setting.values:
                if all(leaves.get(path) == leaf for path, leaf in setting.on_wire(value).items()):
                    yield setting.key, value
