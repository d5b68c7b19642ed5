"""The members of a distributed switch (hosts, uplinks, portgroups they see), and dependents of host switches.

Of a member host these are its NICs at the uplink ports. The dependents of one host's switches are their NICs,
and the portgroups.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.lab.state.host import StandardSwitch
from vgpu_cfg.lab.state.host_defaults import MANAGEMENT_SWITCH
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, LabState, Network, Nic

EVERY_VLAN = ((0, 4094),)
"""The VLANs that an uplink portgroup passes."""
MOST_UPLINKS = 32
"""How many uplinks a switch may name; it keeps the port keys of two hosts apart."""


def port_keys(switch: DistributedSwitch, host_moid: str) -> dict[str, str]:
    """Return the uplink ports of a member, port key → name of the uplink, in order."""
    first = int(host_moid.rpartition("-")[2]) * MOST_UPLINKS
    return {str(first + index): name for index, name in enumerate(switch.uplink_names)}


def connect(switch: DistributedSwitch, host: Host, ports: Mapping[str, str]) -> None:
    """Make a host a member with exactly these NICs (vmnic → port key) as its uplinks there."""
    for nic in host.nics:
        if nic.device in ports:
            nic.uplink_of = switch.moid
        elif nic.uplink_of == switch.moid:
            nic.uplink_of = ""
    if host.moid not in switch.hosts:
        switch.hosts.append(host.moid)
    switch.uplinks[host.moid] = dict(ports)


def disconnect(switch: DistributedSwitch, host: Host) -> None:
    """Take a host out of a switch; its NICs are free then."""
    connect(switch, host, {})
    switch.hosts.remove(host.moid)
    del switch.uplinks[host.moid]


def show_to(state: LabState, network: Network, host: Host) -> None:
    """Let a host and its cluster see a portgroup; uplink portgroups are shown to none."""
    if network.is_uplink or network.moid in host.networks:
        return
    cluster = state.cluster_of(host)
    host.networks.append(network.moid)
    network.hosts.append(host.moid)
    if network.moid not in cluster.networks:
        cluster.networks.append(network.moid)
    state.touch(host, network, cluster)


def hide_from(state: LabState, network: Network, host: Host) -> None:
    """Take a portgroup out of a host's networks, and out of its cluster's where no other host has it."""
    if network.moid not in host.networks:
        return
    cluster = state.cluster_of(host)
    host.networks.remove(network.moid)
    network.hosts.remove(host.moid)
    if not any(network.moid in state.get(moid, Host).networks for moid in cluster.hosts):
        cluster.networks.remove(network.moid)
    state.touch(host, network, cluster)


def used_portgroup(state: LabState, switch: DistributedSwitch, host: Host) -> Network | None:
    """Return a portgroup that a VM or a VMkernel NIC of a member is connected to; None where it may leave."""
    vmknics = {vmknic.distributed for vmknic in host.vmknics.values()}
    for network in (state.get(moid, Network) for moid in switch.portgroups):
        if network.moid in vmknics or any(vm in host.vms for vm in network.vms):
            return network
    return None


def visible_nics(host: Host) -> list[Nic]:
    """Return the vmnics: a NIC that is passed through belongs to VMs, and InfiniBand has no driver."""
    return [nic for nic in host.nics if not (nic.is_infiniband or host.is_passed_through(nic.pci.pci_id))]


def uplinks_of(host: Host, switch: str) -> list[Nic]:
    """Return the NICs that are uplinks of a switch: its name, or the moid of a distributed one."""
    return [nic for nic in visible_nics(host) if nic.uplink_of == switch]


def standard_portgroups(state: LabState, host: Host) -> list[str]:
    """Return the names of all portgroups of a host's standard switches."""
    return [name for switch in host.switches.values() for name in portgroups_on(state, host, switch)]


def portgroups_on(state: LabState, host: Host, switch: StandardSwitch) -> dict[str, int]:
    """Return the portgroups of a standard switch, name → VLAN: those for VMkernel NICs, then those for VMs.

    All of the inventory's standard networks are on the first switch.
    """
    found = dict(switch.portgroups)
    if switch.name == MANAGEMENT_SWITCH:
        found |= {network.name: network.vlan for network in _standard(state, host)}
    return found


def _standard(state: LabState, host: Host) -> list[Network]:
    networks = (state.find(moid, Network) for moid in host.networks)
    return [network for network in networks if network is not None and not network.is_distributed]
