"""Which VMkernel NIC carries which service: vMotion, management and the others of HostVirtualNicManager.

After the vSphere API reference: another device or kind of service is an InvalidArgument. That the last NIC
with management cannot be deselected is the lab's own, as with the removal of that NIC.
"""

from __future__ import annotations

from pyVmomi import vim

from vgpu_cfg.lab.operations.hosts.network import MANAGEMENT
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host_parts import VNIC_SERVICES, Vmknic
from vgpu_cfg.lab.state.inventory import Host


@operation("HostVirtualNicManager", "SelectVnicForNicType")
def select(lab: Simulation, host: Host, *, nicType: str, device: str) -> None:
    """Let a VMkernel NIC carry a service; one that does goes on. Raises InvalidArgument."""
    vmknic = _vmknic(host, nicType, device)
    vmknic.services = tuple(dict.fromkeys((*vmknic.services, nicType)))
    lab.state.touch(host)


@operation("HostVirtualNicManager", "DeselectVnicForNicType")
def deselect(lab: Simulation, host: Host, *, nicType: str, device: str) -> None:
    """Take a service off a VMkernel NIC. Raises InvalidArgument, HostConfigFault."""
    vmknic = _vmknic(host, nicType, device)
    others = [other for other in host.vmknics.values() if other is not vmknic]
    if nicType == MANAGEMENT and not any(MANAGEMENT in other.services for other in others):
        raise vim.fault.HostConfigFault(msg=f"{device} is the host's only management interface.")
    vmknic.services = tuple(service for service in vmknic.services if service != nicType)
    lab.state.touch(host)


def _vmknic(host: Host, service: str, device: str) -> Vmknic:
    if service not in VNIC_SERVICES:
        raise refusals.bad_argument("nicType")
    if device not in host.vmknics:
        raise refusals.bad_argument("device")
    return host.vmknics[device]
