"""What else is set on a host or asked of it: its power policy, and the acceptance level of its packages.

The four policies with their keys and short names are those of ESXi (`vim.host.PowerSystem`, and Ansible's
vmware_host_powermgmt_policy); that a new host has the balanced one is as VMware's guide to resource
management has it. The acceptance level is ESXi's own, and nothing changes it.
"""

from __future__ import annotations

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host_parts import POWER_POLICIES
from vgpu_cfg.lab.state.inventory import Host


@operation("HostPowerSystem", "ConfigurePowerPolicy")
def configure_power_policy(lab: Simulation, host: Host, *, key: int) -> None:
    """Set the power policy, which is in force at once. Raises InvalidArgument for a key that there is not."""
    if key not in POWER_POLICIES:
        raise refusals.bad_argument("key")
    host.power_policy = key
    lab.state.touch(host)


@operation("HostImageConfigManager", "HostImageConfigGetAcceptance")
def acceptance(lab: Simulation, host: Host) -> str:
    """Tell which packages the host takes."""
    del lab, host
    return "partner"


@operation("HostSystem", "QueryTpmAttestationReport")
def tpm_report(lab: Simulation, host: Host) -> None:
    """Tell nothing: no host of the lab has a TPM."""
