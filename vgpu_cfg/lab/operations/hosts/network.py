"""A host's own network: VMkernel NICs and their services, standard switches and their portgroups.

An MTU above that of the switch below is taken: that a host refuses one is unproven. IPv6 and routes are not
kept. The methods' descriptions name the required privileges.

A portgroup made here is for VMkernel NICs alone: a portgroup for VMs is a network of the inventory, and is
defined in the estate.

Services are those of HostVirtualNicManager. After the vSphere API reference, another device or kind of
service is an InvalidArgument. That the last NIC with management cannot be deselected is the lab's own, as
with the removal of that NIC.
"""

from __future__ import annotations

from dataclasses import replace
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.operations.switches import drop_links
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import VNIC_SERVICES, StandardSwitch, Vmknic
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, LabState, Network
from vgpu_cfg.lab.state.switch_members import standard_portgroups, uplinks_of, visible_nics

ORDINARY_MTU = 1500
MANAGEMENT = "management"

HIGHEST_VLAN = 4095
"""4095 lets all VLANs through (vim `HostPortGroupSpec.vlanId`)."""


@operation("HostNetworkSystem", "RefreshNetworkSystem")
def refresh(lab: Simulation, host: Host) -> None:
    """Do nothing: the lab is never stale."""


# --------------------------------------------------------------- VMkernel NICs


@operation("HostNetworkSystem", "AddVirtualNic")
def add_vmknic(lab: Simulation, host: Host, *, portgroup: str, nic: Any) -> str:
    """Make a VMkernel NIC, and return its device: `vmk` with the lowest free number (recalled).

    Raises InvalidArgument for an address or a portgroup that cannot be, AlreadyExists where a standard
    portgroup has one, HostConfigFault for a switch that the host is no member of.
    """
    _check_privileges(lab, host, nic)
    if nic.ip is None:
        raise refusals.bad_argument("nic.ip")
    if portgroup and nic.distributedVirtualPort is not None:
        raise refusals.bad_argument("portgroup")
    standard, distributed = _place(lab.state, host, portgroup or nic.portgroup or "", nic)
    _check_alone(host, standard)
    number = next(at for at in range(len(host.vmknics) + 1) if f"vmk{at}" not in host.vmknics)
    made = Vmknic(f"vmk{number}", nic.mac or _mac(host, number), standard, distributed)
    _take(made, nic)
    host.vmknics[made.device] = made
    lab.state.touch(host)
    return made.device


@operation("HostNetworkSystem", "UpdateVirtualNic")
def update_vmknic(lab: Simulation, host: Host, *, device: str, nic: Any) -> None:
    """Change a VMkernel NIC; an unset MTU falls back to 1500 (HostVirtualNicSpec), the rest stays.

    Raises NotFound, and what making one raises.
    """
    _check_privileges(lab, host, nic)
    vmknic = _vmknic(host, device)
    place = vmknic.portgroup, vmknic.distributed
    if nic.portgroup or nic.distributedVirtualPort is not None:
        place = _place(lab.state, host, nic.portgroup or "", nic)
    if place[0] != vmknic.portgroup:
        _check_alone(host, place[0])
    before = replace(vmknic)
    _take(vmknic, nic)
    vmknic.portgroup, vmknic.distributed = place
    vmknic.mac = nic.mac or vmknic.mac
    if vmknic != before:
        lab.note(host, "network", device)
    lab.state.touch(host)


@operation("HostNetworkSystem", "RemoveVirtualNic")
def remove_vmknic(lab: Simulation, host: Host, *, device: str) -> None:
    """Remove a VMkernel NIC. Raises NotFound; HostConfigFault for the only one with management."""
    vmknic = _vmknic(host, device)
    others = [other for other in host.vmknics.values() if other is not vmknic]
    if MANAGEMENT in vmknic.services and not any(MANAGEMENT in other.services for other in others):
        raise vim.fault.HostConfigFault(msg=f"{device} is the host's only management interface.")
    lab.note(host, "network", device)
    del host.vmknics[device]
    lab.state.touch(host)


def _check_privileges(lab: Simulation, host: Host, nic: Any) -> None:
    lab.check_privileges(reference(host), ["Host.Config.Network"])
    port = nic.distributedVirtualPort
    network = lab.state.find(port.portgroupKey, Network) if port is not None else None
    if network is not None:
        lab.check_privileges(reference(network), ["Network.Assign"])


def _place(state: LabState, host: Host, name: str, nic: Any) -> tuple[str, str]:
    """Return the standard portgroup (name) or the distributed one (moid) that a spec means."""
    port = nic.distributedVirtualPort
    if port is None:
        if name not in standard_portgroups(state, host):
            raise refusals.bad_argument("portgroup")
        return name, ""
    network = state.find(port.portgroupKey, Network)
    if network is None or not network.is_distributed or network.is_uplink:
        raise refusals.bad_argument("nic.distributedVirtualPort.portgroupKey")
    switch = state.get(network.switch, DistributedSwitch)
    if port.switchUuid != switch.uuid:
        raise refusals.bad_argument("nic.distributedVirtualPort.switchUuid")
    if host.moid not in switch.hosts:
        raise vim.fault.HostConfigFault(msg=f"The host is no member of the distributed switch {switch.name}.")
    return "", network.moid


def _check_alone(host: Host, portgroup: str) -> None:
    if portgroup and any(vmknic.portgroup == portgroup for vmknic in host.vmknics.values()):
        raise refusals.already_exists(portgroup)


def _take(vmknic: Vmknic, nic: Any) -> None:
    """Take address and MTU over from a spec. Raises InvalidArgument."""
    if nic.mtu is not None and nic.mtu <= 0:
        raise refusals.bad_argument("nic.mtu")
    if nic.ip is not None:
        vmknic.ip, vmknic.netmask = _read_address(nic.ip)
        vmknic.dhcp = bool(nic.ip.dhcp)
    vmknic.mtu = ORDINARY_MTU if nic.mtu is None else int(nic.mtu)


def _read_address(ip: Any) -> tuple[str, str]:
    """Return address and mask, none for DHCP, which takes no address along. Raises InvalidArgument."""
    if ip.dhcp:
        if ip.ipAddress or ip.subnetMask:
            raise refusals.bad_argument("nic.ip.ipAddress")
        return "", ""
    try:
        IPv4Address(ip.ipAddress or "")
    except AddressValueError:
        raise refusals.bad_argument("nic.ip.ipAddress") from None
    if not _is_netmask(ip.subnetMask or ""):
        raise refusals.bad_argument("nic.ip.subnetMask")
    return str(ip.ipAddress), str(ip.subnetMask)


def _is_netmask(text: str) -> bool:
    """Whether a text is a mask in dot notation; `ipaddress` takes a prefix length and a host mask, too."""
    try:
        return str(IPv4Network(f"0.0.0.0/{text}").netmask) == text
    except NetmaskValueError:
        return False


def _vmknic(host: Host, device: str) -> Vmknic:
    if device not in host.vmknics:
        raise refusals.not_found()
    return host.vmknics[device]


def _mac(host: Host, number: int) -> str:
    at = int(host.moid.rpartition("-")[2])
    return f"00:50:56:6{at >> 8 & 0xF:x}:{at & 0xFF:02x}:{number & 0xFF:02x}"


# ----------------------------------------------------------- standard switches


@operation("HostNetworkSystem", "UpdateVirtualSwitch")
def update_switch(lab: Simulation, host: Host, *, vswitchName: str, spec: Any) -> None:
    """Set a standard switch's uplinks, as a complete list, and its MTU, which stays if it is unset.

    Raises NotFound, InvalidArgument for a bridge or a teaming order of other NICs, ResourceInUse for a
    NIC that another switch has.
    """
    if vswitchName not in host.switches:
        raise refusals.not_found()
    switch = host.switches[vswitchName]
    devices = _read_bridge(host, switch, spec.bridge)
    _check_order(spec.policy, devices)
    lost = {nic.device for nic in uplinks_of(host, switch.name)} - set(devices)
    if lost or (spec.mtu or switch.mtu) != switch.mtu:
        drop_links(lab, host, switch.name)
    for nic in host.nics:
        if nic.device in devices:
            nic.uplink_of = switch.name
        elif nic.uplink_of == switch.name:
            nic.uplink_of = ""
    order = _order(spec.policy)
    if order is not None:
        switch.active, switch.standby = tuple(order.activeNic or ()), tuple(order.standbyNic or ())
        named = (*switch.active, *switch.standby)
        switch.unused = tuple(device for device in devices if device not in named)
    switch.standby = tuple(device for device in switch.standby if device in devices)
    switch.mtu = int(spec.mtu) if spec.mtu else switch.mtu
    lab.state.touch(host)


def _read_bridge(host: Host, switch: StandardSwitch, bridge: Any) -> list[str]:
    if bridge is None:
        return []
    if not isinstance(bridge, vim.host.VirtualSwitch.BondBridge):
        raise refusals.bad_argument("spec.bridge")
    nics = {nic.device: nic for nic in visible_nics(host)}
    devices = [str(device) for device in bridge.nicDevice or ()]
    for device in devices:
        if device not in nics:
            raise refusals.bad_argument("spec.bridge.nicDevice")
        if nics[device].uplink_of not in ("", switch.name):
            raise vim.fault.ResourceInUse(name=device, msg=f"The resource '{device}' is in use.")
    return devices


def _check_order(policy: Any, devices: list[str]) -> None:
    order = _order(policy)
    if order is not None and not {*(order.activeNic or ()), *(order.standbyNic or ())} <= set(devices):
        raise refusals.bad_argument("spec.policy.nicTeaming.nicOrder")


def _order(policy: Any) -> Any:
    return getattr(getattr(policy, "nicTeaming", None), "nicOrder", None)


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


@operation("HostVirtualNicManager", "SelectVnicForNicType")
def select(lab: Simulation, host: Host, *, nicType: str, device: str) -> None:
    """Let a VMkernel NIC carry a service; one that does goes on. Raises InvalidArgument."""
    vmknic = _vnic_services_vmknic(host, nicType, device)
    vmknic.services = tuple(dict.fromkeys((*vmknic.services, nicType)))
    lab.state.touch(host)


@operation("HostVirtualNicManager", "DeselectVnicForNicType")
def deselect(lab: Simulation, host: Host, *, nicType: str, device: str) -> None:
    """Take a service off a VMkernel NIC. Raises InvalidArgument, HostConfigFault."""
    vmknic = _vnic_services_vmknic(host, nicType, device)
    others = [other for other in host.vmknics.values() if other is not vmknic]
    if nicType == MANAGEMENT and not any(MANAGEMENT in other.services for other in others):
        raise vim.fault.HostConfigFault(msg=f"{device} is the host's only management interface.")
    vmknic.services = tuple(service for service in vmknic.services if service != nicType)
    lab.state.touch(host)


def _vnic_services_vmknic(host: Host, service: str, device: str) -> Vmknic:
    if service not in VNIC_SERVICES:
        raise refusals.bad_argument("nicType")
    if device not in host.vmknics:
        raise refusals.bad_argument("device")
    return host.vmknics[device]
