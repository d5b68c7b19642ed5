"""Removal of other objects: hosts, clusters, datacenters, switches and portgroups.

Each only where nothing is left in it or on it; which fault says so for a cluster and a datacenter is assumed.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    DistributedSwitch,
    Folder,
    Host,
    Managed,
    Network,
    VirtualMachine,
)

_MOUNTED = (Datastore, Network, DistributedSwitch)
"""The objects that name the hosts that have it."""


def check_host(lab: Simulation, host: Host) -> None:
    """Raise InvalidState for a host that is neither disconnected nor in maintenance mode."""
    on = [moid for moid in host.vms if lab.state.get(moid, VirtualMachine).is_on]
    if host.connection == "connected" and (on or not host.in_maintenance):
        raise vim.fault.InvalidState(msg="The operation is not allowed in the current state of the host.")


def remove_host(lab: Simulation, host: Host) -> None:
    """Take a host without VMs out of the inventory."""
    state = lab.state
    cluster = state.cluster_of(host)
    cluster.hosts.remove(host.moid)
    for thing in (one for one in state.objects.values() if isinstance(one, _MOUNTED)):
        if host.moid in thing.hosts:
            thing.hosts.remove(host.moid)
            state.touch(thing)
    for switch in state.all(DistributedSwitch):
        switch.uplinks.pop(host.moid, None)
    for waiting in (state.leaving, state.booting):
        waiting.pop(host.moid, None)
    state.touch(cluster)
    state.remove(host)


def remove_cluster(lab: Simulation, cluster: Cluster) -> None:
    """Remove a cluster without hosts. Raises ResourceInUse."""
    if cluster.hosts:
        raise in_use(cluster)
    lab.state.remove(lab.state.objects[cluster.resource_pool])
    take_out(lab, cluster)


def remove_datacenter(lab: Simulation, datacenter: Datacenter) -> None:
    """Remove a datacenter with nothing in its folders. Raises ResourceInUse."""
    folders = [
        lab.state.get(moid, Folder)
        for moid in (
            datacenter.vm_folder,
            datacenter.host_folder,
            datacenter.datastore_folder,
            datacenter.network_folder,
        )
    ]
    if any(folder.children for folder in folders):
        raise in_use(datacenter)
    for folder in folders:
        lab.state.remove(folder)
    take_out(lab, datacenter)


def remove_portgroup(lab: Simulation, portgroup: Network) -> None:
    """Remove a distributed portgroup on which nothing is. Raises ResourceInUse."""
    if is_used(lab, portgroup) or portgroup.is_uplink:
        raise in_use(portgroup)
    switch = lab.state.get(portgroup.switch, DistributedSwitch)
    switch.portgroups.remove(portgroup.moid)
    lab.state.touch(switch)
    _forget(lab, portgroup)


def remove_switch(lab: Simulation, switch: DistributedSwitch) -> None:
    """Remove a distributed switch without members, with its portgroups. Raises ResourceInUse."""
    portgroups = [network for network in lab.state.all(Network) if network.switch == switch.moid]
    if switch.hosts or any(is_used(lab, portgroup) for portgroup in portgroups):
        raise in_use(switch)
    for portgroup in portgroups:
        _forget(lab, portgroup)
    take_out(lab, switch)


def _forget(lab: Simulation, portgroup: Network) -> None:
    for host in lab.state.all(Host):
        if portgroup.moid in host.networks:
            host.networks.remove(portgroup.moid)
            lab.state.touch(host)
    for cluster in lab.state.all(Cluster):
        if portgroup.moid in cluster.networks:
            cluster.networks.remove(portgroup.moid)
            lab.state.touch(cluster)
    take_out(lab, portgroup)


def is_used(lab: Simulation, portgroup: Network) -> bool:
    """Whether a VM or a VMkernel NIC is on a portgroup."""
    vmknics = (vmknic for host in lab.state.all(Host) for vmknic in host.vmknics.values())
    return bool(portgroup.vms) or any(vmknic.distributed == portgroup.moid for vmknic in vmknics)


def in_use(thing: Managed) -> Any:
    """Return the refusal for an object that is not empty."""
    return vim.fault.ResourceInUse(name=thing.name, msg=f"The resource '{thing.name}' is in use.")


def take_out(lab: Simulation, thing: Managed) -> None:
    """Take a thing out of its folder and of the inventory."""
    above = lab.state.get(thing.parent, Folder)
    above.children.pop(thing.moid, None)
    lab.state.touch(above)
    lab.state.remove(thing)
