"""Set firmware parameters of a passed-through NIC in the guest, which alone can reach it.

Belief: mlxconfig-in-a-guest.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.guests.modules import NicFirmwareModule
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import nic_arguments
from vgpu_cfg.staging.rendering import Staged, halves

_NAME = re.compile(r"[A-Z][A-Z0-9_]*")
_VALUE = re.compile(r"[A-Za-z0-9_]+")


def stage_nic_firmware(module: NicFirmwareModule) -> Staged:
    """Set what differs; what then waits for the next boot needs the host's power cycle: a manual step."""
    parameters = sorted((name, value) for name, value in module.parameters.items())
    for name, value in parameters:
        if not _NAME.fullmatch(name):
            raise values.refuse(
                "a firmware parameter", name, "use the name shown by mlxconfig, such as ATS_ENABLED"
            )
        if not _VALUE.fullmatch(value):
            raise values.refuse("the value of a firmware parameter", value, "use a number, true, or false")
    return halves("nic-firmware.sh.j2", nics=nic_arguments(module.nics), parameters=parameters)
