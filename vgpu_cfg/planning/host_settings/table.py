"""The table of all host settings that this tool knows, in the order in which a plan tells them.

What needs the whole machine comes first (BIOS, driver, firmware tools, kernel), then GPUs, then NICs and
their networks.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.planning.host_settings.bios import BIOS_SETTINGS
from vgpu_cfg.planning.host_settings.entry import HostSetting
from vgpu_cfg.planning.host_settings.gpus.driver import DRIVER
from vgpu_cfg.planning.host_settings.gpus.gpu_passthrough import PASSTHROUGH_SETTINGS
from vgpu_cfg.planning.host_settings.gpus.graphics import GRAPHICS_SETTINGS
from vgpu_cfg.planning.host_settings.gpus.mig_and_ecc import ECC, MIG
from vgpu_cfg.planning.host_settings.gpus.scheduler import SCHEDULER
from vgpu_cfg.planning.host_settings.kernel import ATS
from vgpu_cfg.planning.host_settings.licence import LICENCE
from vgpu_cfg.planning.host_settings.nics.firmware_tools import FIRMWARE_TOOLS
from vgpu_cfg.planning.host_settings.nics.handed_out import NIC_LABEL, NIC_PASSTHROUGH, NIC_SRIOV
from vgpu_cfg.planning.host_settings.nics.nic_firmware import NIC_FIRMWARE
from vgpu_cfg.planning.host_settings.nics.pvrdma import PVRDMA, PVRDMA_FIREWALL
from vgpu_cfg.planning.host_settings.nics.roce import NMLX5_CORE, NMLX5_RDMA
from vgpu_cfg.planning.host_settings.nics.uplinks import UPLINK
from vgpu_cfg.planning.host_settings.nics.vmknics import VMKNIC

SETTINGS: tuple[HostSetting, ...] = (
    *BIOS_SETTINGS,
    DRIVER,
    FIRMWARE_TOOLS,
    ATS,
    *GRAPHICS_SETTINGS,
    *PASSTHROUGH_SETTINGS,
    MIG,
    ECC,
    SCHEDULER,
    NIC_FIRMWARE,
    NIC_PASSTHROUGH,
    NIC_LABEL,
    NIC_SRIOV,
    NMLX5_CORE,
    NMLX5_RDMA,
    # A switch first, then the VMkernel NIC on it, then what names that NIC.
    UPLINK,
    VMKNIC,
    PVRDMA,
    PVRDMA_FIREWALL,
    LICENCE,
)

_BY_KEY: Mapping[str, HostSetting] = {setting.key: setting for setting in SETTINGS}


def setting(key: str) -> HostSetting:
    """Return the entry with a key; KeyError names the keys that there are."""
    try:
        return _BY_KEY[key]
    except KeyError:
        raise KeyError(f"no host setting {key!r}: the table has {', '.join(_BY_KEY)}") from None
