"""NICs of a host with virtual functions, the number of free ones, and the holders of the others.

The holders of virtual functions are known for running VMs whose devices were read. Virtual functions that a
VM has as plain passthrough devices are not counted: their physical function is unknown.

Belief: running-vms-hold-virtual-functions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_cfg.model.observed.host_facts import EstateFacts
from vgpu_cfg.model.observed.inventory import Host, PciDevice
from vgpu_cfg.model.observed.vm import Vm

SRIOV = "sriov"
"""The `VirtualNic.kind` of a virtual function."""


@dataclass(frozen=True, slots=True)
class FunctionPool:
    """The virtual functions of one physical function.

    `total` are there now, of which each of `holders` (VM names, one for each function) has one.
    `networks` are the moids of the portgroups on the switch that it is an uplink of, None where that
    was not read.
    """

    pci: PciDevice
    vmnic: str = ""
    total: int = 0
    holders: tuple[str, ...] = ()
    networks: frozenset[str] | None = None

    @property
    def free(self) -> int:
        """The number of free ones."""
        return max(0, self.total - len(self.holders))


def read_functions(host: Host, vms: Iterable[Vm], facts: EstateFacts) -> list[FunctionPool]:
    """List the physical functions of a host that have virtual ones, in the host's order.

    `vms` are those that are on the host and count. A virtual function whose physical one vSphere chose
    is taken for one of the first that has any left.
    """
    nics = {nic.pci_id: nic for nic in host.nics}
    devices = {nic.pci_id: nic.pci for nic in host.nics if nic.pci is not None}
    devices |= {device.pci_id: device for device in host.pci_devices}
    pools = {
        pci_id: device
        for pci_id, device in devices.items()
        if device.is_nic and device.sriov is not None and device.sriov.is_active
    }
    totals = {
        pci_id: device.sriov.functions if device.sriov is not None else 0 for pci_id, device in pools.items()
    }
    holders: dict[str, list[str]] = {pci_id: [] for pci_id in pools}
    unnamed: list[str] = []
    for vm in vms:
        for nic in vm.detail.nics if vm.detail is not None and vm.is_on else ():
            if nic.kind == SRIOV and nic.function in holders:
                holders[nic.function].append(vm.name)
            elif nic.kind == SRIOV and nic.function is None:
                unnamed.append(vm.name)
    for name in unnamed:
        left = next((pci_id for pci_id in pools if len(holders[pci_id]) < totals[pci_id]), None)
        if left is not None:
            holders[left].append(name)
    return [
        FunctionPool(
            device,
            nics[pci_id].device if pci_id in nics else "",
            totals[pci_id],
            tuple(holders[pci_id]),
            _reach(host, nics[pci_id].device, facts) if pci_id in nics else None,
        )
        for pci_id, device in pools.items()
    ]


def read_uplinks(host: Host, facts: EstateFacts) -> dict[str, str]:
    """Return the NICs that are uplinks with the names of their switches; empty where nothing was read."""
    read = facts.hosts.get(host.moid)
    return {vmnic: switch.name for switch in (read.switches if read else ()) for vmnic in switch.uplinks}


def _reach(host: Host, vmnic: str, facts: EstateFacts) -> frozenset[str] | None:
    """Return the portgroups of the distributed switch that a NIC is an uplink of.

    None if no switches were read, and for standard switches: a host does not report which portgroup is on
    which.
    """
    read = facts.hosts.get(host.moid)
    if read is None or not facts.switches:
        return None
    own = next((switch for switch in read.switches if vmnic in switch.uplinks), None)
    if own is None:
        return frozenset()
    switch = next((one for one in facts.switches if one.uuid and one.uuid == own.switch_uuid), None)
    return frozenset(switch.portgroup_vlans) if switch is not None else None
