"""Needs of paravirtual RDMA NICs on a host: the switch of their network, its uplink, a VMkernel NIC.

The VMkernel NIC that PVRDMA talks through must be on the switch of the NIC's portgroup, whose only uplink is
the RDMA NIC; with teaming, or without any of it, the traffic falls back to TCP silently. Source: vSphere
Networking 8.0, Configure an ESXi Host for PVRDMA (GUID-4A5EBD44).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.model.desired import DesiredHosts, DesiredNic, DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.host_facts import HostSwitch
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import PvrdmaEntry, VmknicEntry
from vgpu_cfg.model.rdma import RDMA_MTU, network_of
from vgpu_cfg.planning.estate.site import find_named
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.nics.vmknics import network_name


@dataclass(frozen=True, slots=True)
class PvrdmaNeeds:
    """The additions to an entry: PVRDMA's settings, VMkernel NICs with their MTU, the switch's uplinks."""

    pvrdma: PvrdmaEntry | None = None
    vmknics: tuple[VmknicEntry, ...] = ()
    uplinks: tuple[str, ...] = ()


def pvrdma_nics(vm: DesiredVm) -> list[DesiredNic]:
    """Return a VM's paravirtual RDMA NICs."""
    return [nic for nic in vm.nics if nic.is_pvrdma]


def pvrdma_needs(
    entry: DesiredHosts,
    view: HostView,
    vms: Sequence[DesiredVm],
    desired: DesiredPlan,
    observed: Inventory,
) -> PvrdmaNeeds:
    """Return the needs of these VMs' paravirtual RDMA NICs on a host, as far as it has the parts."""
    nics = [nic for vm in vms for nic in pvrdma_nics(vm)]
    if not nics:
        return PvrdmaNeeds(vmknics=entry.vmknics)
    switches = {name: None for nic in nics for name in _switch_names(nic, desired, observed)}
    own = [one for one in view.facts.switches if one.name in switches and one.switch_uuid is not None]
    uplinks = tuple(dict.fromkeys(vmnic for one in own for vmnic in one.uplinks))
    vmknics = tuple(
        one.model_copy(update={"mtu": RDMA_MTU})
        if one.mtu is None and _is_on(one.network, switches, desired, observed)
        else one
        for one in entry.vmknics
    )
    if entry.pvrdma is not None:
        return PvrdmaNeeds(vmknics=vmknics, uplinks=uplinks)
    stated = next((one for one in vmknics if _is_on(one.network, switches, desired, observed)), None)
    if stated is not None:
        return PvrdmaNeeds(PvrdmaEntry(network=network_name(stated.network)), vmknics, uplinks)
    there = next(
        (one for one in view.facts.vmknics if _is_on(one.network, switches, desired, observed)), None
    )
    if there is None:
        return PvrdmaNeeds(vmknics=vmknics, uplinks=uplinks)
    if there.mtu < RDMA_MTU:
        vmknics = (*vmknics, VmknicEntry(network=there.network, mtu=RDMA_MTU))
    return PvrdmaNeeds(PvrdmaEntry(vmknic=there.device), vmknics, uplinks)


def switch_of(
    nic: DesiredNic, view: HostView, desired: DesiredPlan, observed: Inventory
) -> HostSwitch | None:
    """Return the distributed switch of a NIC's network as a host sees it, None where it has none."""
    names = _switch_names(nic, desired, observed)
    return next((one for one in view.facts.switches if one.name in names and one.switch_uuid), None)


def _switch_names(nic: DesiredNic, desired: DesiredPlan, observed: Inventory) -> tuple[str, ...]:
    """Name the distributed switch that a NIC's network is on, or is made on by the plan."""
    line = network_of(desired, nic)
    if line is not None and line.switch is not None:
        return (line.switch,)
    return _switches_of(nic.network or "", observed)


def _switches_of(network: str, observed: Inventory) -> tuple[str, ...]:
    uuids = {one.switch_uuid for one in find_named(network, observed.networks) if one.switch_uuid}
    return tuple(one.name for one in observed.facts.switches if one.uuid in uuids)


def _is_on(network: str, switches: dict[str, None], desired: DesiredPlan, observed: Inventory) -> bool:
    """Whether a network is a portgroup of one of the switches."""
    if not network:
        return False
    made = [
        one.switch
        for one in desired.networks
        if one.switch is not None and network_name(one.name) == network_name(network)
    ]
    names = made or _switches_of(network, observed)
    return any(name in switches for name in names)
