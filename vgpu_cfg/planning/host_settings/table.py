"""The table of all host settings that this tool knows, in the order in which a plan tells them.

What needs the whole machine comes first (BIOS, driver, firmware tools, kernel), then GPUs, then NICs and
their networks.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.planning.host_settings.bios import BIOS_SETTINGS
from vgpu_cfg.planning.host_settings.entry import HostSetting
from vgpu_cfg.planning.host_settings.gpus.driver import DRIVER_SETTINGS
from vgpu_cfg.planning.host_settings.gpus.graphics import GRAPHICS_SETTINGS
from vgpu_cfg.planning.host_settings.gpus.mig_and_ecc import GPU_SETTINGS
from vgpu_cfg.planning.host_settings.kernel import KERNEL_SETTINGS
from vgpu_cfg.planning.host_settings.nics.firmware_tools import FIRMWARE_TOOLS
from vgpu_cfg.planning.host_settings.nics.handed_out import NIC_SETTINGS
from vgpu_cfg.planning.host_settings.nics.network import NETWORK_SETTINGS

SETTINGS: tuple[HostSetting, ...] = (
    *BIOS_SETTINGS,
    *DRIVER_SETTINGS,
    FIRMWARE_TOOLS,
    *KERNEL_SETTINGS,
    *GRAPHICS_SETTINGS,
    *GPU_SETTINGS,
    *NIC_SETTINGS,
    *NETWORK_SETTINGS,
)

_BY_KEY: Mapping[str, HostSetting] = {setting.key: setting for setting in SETTINGS}


def setting(key: str) -> HostSetting:
    """Return the entry with a key; KeyError names the keys that there are."""
    try:
        return _BY_KEY[key]
    except KeyError:
        raise KeyError(f"no host setting {key!r}: the table has {', '.join(_BY_KEY)}") from None
