"""Who belongs to a distributed switch: hosts, their NICs at its uplink ports, and the portgroups they see."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, LabState, Network

EVERY_VLAN = ((0, 4094),)
"""What an uplink portgroup lets through."""
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
