"""The packages of a host: what is installed, and what an offline bundle would add at the next boot."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Host

ACCEPTANCE = "VMwareCertified"


@operation("HostImageConfigManager", "fetchSoftwarePackages")
def fetch_software_packages(lab: Simulation, host: Host) -> list[Any]:
    """List the packages that the host runs now; those that wait for a reboot are not among them."""
    return [
        vim.host.SoftwarePackage(
            name=vib.name,
            version=vib.version,
            type="bootbank",
            vendor=vib.vendor,
            acceptanceLevel=ACCEPTANCE,
            summary=vib.summary,
            description=vib.summary,
            creationDate=as_datetime(VIRTUAL_START),
            maintenanceModeRequired=True,
            capability=vim.host.SoftwarePackage.Capability(
                liveInstallAllowed=False, liveRemoveAllowed=False, statelessReady=True, overlay=False
            ),
        )
        for vib in host.software.values()
    ]
