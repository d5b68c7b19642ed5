"""What hangs on the switches of one host: the NICs that are there for them, and the portgroups."""

from __future__ import annotations

from vgpu_cfg.lab.state.host_defaults import MANAGEMENT_SWITCH
from vgpu_cfg.lab.state.host_parts import StandardSwitch
from vgpu_cfg.lab.state.inventory import Host, LabState, Network, Nic


def visible_nics(host: Host) -> list[Nic]:
    """Return the NICs that the host itself has: one that is passed through belongs to VMs."""
    return [nic for nic in host.nics if not host.is_passed_through(nic.pci.pci_id)]


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
