"""What the methods do to the state: one file per subject. Importing this package registers them all."""

from __future__ import annotations

from vgpu_cfg.lab.operations import (
    clone,
    cluster,
    create,
    folders,
    host_devices,
    host_graphics,
    host_modules,
    host_network,
    host_power,
    host_services,
    host_software,
    migrate,
    portgroups,
    power,
    reconfigure,
    switches,
    vm_life,
)
from vgpu_cfg.lab.operations.registry import OPERATIONS, find_operation

__all__ = [
    "OPERATIONS",
    "clone",
    "cluster",
    "create",
    "find_operation",
    "folders",
    "host_devices",
    "host_graphics",
    "host_modules",
    "host_network",
    "host_power",
    "host_services",
    "host_software",
    "migrate",
    "portgroups",
    "power",
    "reconfigure",
    "switches",
    "vm_life",
]
