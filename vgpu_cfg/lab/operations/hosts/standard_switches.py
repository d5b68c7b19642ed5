"""Standard switches of a host and their portgroups, made and removed.

What is made here is for VMkernel NICs alone: a portgroup for VMs is a network of the inventory, and stands in
the estate.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.hosts.network import update_switch
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host_parts import StandardSwitch
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.lab.state.standard_switches import standard_portgroups

HIGHEST_VLAN = 4095
"""4095 lets all VLANs through (vim `HostPortGroupSpec.vlanId`)."""


@operation("HostNetworkSystem", "AddVirtualSwitch")
def add_switch(lab: Simulation, host: Host, *, vswitchName: str, spec: Any = None) -> None:
    """Make a standard switch. Raises AlreadyExists, and what changing one raises."""
    if vswitchName in host.switches:
        raise refusals.already_exists(vswitchName)
    host.switches[vswitchName] = StandardSwitch(vswitchName)
    if spec is not None:
        try:
            update_switch(lab, host, vswitchName=vswitchName, spec=spec)
        except Exception:
            del host.switches[vswitchName]
            raise
    lab.state.touch(host)


@operation("HostNetworkSystem", "RemoveVirtualSwitch")
def remove_switch(lab: Simulation, host: Host, *, vswitchName: str) -> None:
    """Remove a standard switch with its portgroups. Raises NotFound, ResourceInUse where one is used."""
    switch = _switch(host, vswitchName)
    used = {vmknic.portgroup for vmknic in host.vmknics.values()}
    if used & {*switch.portgroups}:
        raise _in_use(vswitchName)
    for nic in host.nics:
        if nic.uplink_of == vswitchName:
            nic.uplink_of = ""
    del host.switches[vswitchName]
    lab.state.touch(host)


@operation("HostNetworkSystem", "AddPortGroup")
def add_portgroup(lab: Simulation, host: Host, *, portgrp: Any) -> None:
    """Make a portgroup. Raises AlreadyExists, NotFound for its switch, InvalidArgument for its VLAN."""
    switch = _switch(host, portgrp.vswitchName)
    if portgrp.name in standard_portgroups(lab.state, host):
        raise refusals.already_exists(portgrp.name)
    switch.portgroups[portgrp.name] = _vlan(portgrp)
    lab.state.touch(host)


@operation("HostNetworkSystem", "UpdatePortGroup")
def update_portgroup(lab: Simulation, host: Host, *, pgName: str, portgrp: Any) -> None:
    """Name a portgroup and set its VLAN. Raises NotFound, AlreadyExists, InvalidArgument."""
    switch = _switch_with(host, pgName)
    if portgrp.vswitchName != switch.name:
        raise refusals.bad_argument("portgrp.vswitchName")
    if portgrp.name != pgName and portgrp.name in standard_portgroups(lab.state, host):
        raise refusals.already_exists(portgrp.name)
    vlan = _vlan(portgrp)
    del switch.portgroups[pgName]
    switch.portgroups[portgrp.name] = vlan
    for vmknic in host.vmknics.values():
        if vmknic.portgroup == pgName:
            vmknic.portgroup = portgrp.name
    lab.state.touch(host)


@operation("HostNetworkSystem", "RemovePortGroup")
def remove_portgroup(lab: Simulation, host: Host, *, pgName: str) -> None:
    """Remove a portgroup. Raises NotFound, ResourceInUse while a VMkernel NIC is on it."""
    switch = _switch_with(host, pgName)
    if any(vmknic.portgroup == pgName for vmknic in host.vmknics.values()):
        raise _in_use(pgName)
    del switch.portgroups[pgName]
    lab.state.touch(host)


def _switch(host: Host, name: str) -> StandardSwitch:
    if name not in host.switches:
        raise refusals.not_found()
    return host.switches[name]


def _switch_with(host: Host, portgroup: str) -> StandardSwitch:
    found = next((switch for switch in host.switches.values() if portgroup in switch.portgroups), None)
    if found is None:
        raise refusals.not_found()
    return found


def _vlan(spec: Any) -> int:
    if not 0 <= spec.vlanId <= HIGHEST_VLAN:
        raise refusals.bad_argument("portgrp.vlanId")
    return int(spec.vlanId)


def _in_use(name: str) -> Exception:
    return vim.fault.ResourceInUse(name=name, msg=f"The resource '{name}' is in use.")
