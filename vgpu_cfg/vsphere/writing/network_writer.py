"""VMkernel NICs, uplinks, switches and portgroups: the requests, and the fields that a change must include.

A spec that changes one field is the one that was read, with that field changed: the API takes an unset field
for its default (`HostVirtualNicSpec.mtu`) or for nothing at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ipaddress import IPv4Interface
from typing import Any, assert_never

from pyVmomi import vim

from vgpu_cfg.changes.change import ChangeNetwork
from vgpu_cfg.changes.kinds.change_host import SwitchWrite, VmknicWrite
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.errors import NotFound, StalePlan, VCenterError
from vgpu_cfg.model.observed.managed_object import escaped
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.host_managers import host_paths, only_host, read_managers

_PORTGROUP = Paths(
    "vim.dvs.DistributedVirtualPortgroup", ("key", "config.configVersion", "config.distributedVirtualSwitch")
)
_SWITCH = Paths("vim.DistributedVirtualSwitch", ("uuid", "config.configVersion", "config.host"))
_DATACENTER = Paths("vim.Datacenter", ("networkFolder",))
_UUID = Paths("vim.DistributedVirtualSwitch", ("uuid",))


def write_vmknic(session: Session, host_moid: str, write: VmknicWrite) -> None:
    """Make a VMkernel NIC, or change one: two round trips, three to make one on a distributed portgroup."""
    if write.device is not None:
        _change_vmknic(session, host_moid, write, write.device)
    elif write.network_moid.startswith("dvportgroup-"):
        _make_distributed_vmknic(session, host_moid, write)
    else:
        host = read_managers(session, host_moid, "networkSystem")
        spec = new_vmknic(write)
        with translated(f"creating a VMkernel NIC on {write.network_name}", host.name):
            host.manager("networkSystem").AddVirtualNic(write.network_name, spec)


def _make_distributed_vmknic(session: Session, host_moid: str, write: VmknicWrite) -> None:
    starts = [Start("vim.HostSystem", host_moid), Start(_PORTGROUP.type_name, write.network_moid)]
    items = collect_from(session, (host_paths("networkSystem"), _PORTGROUP), starts)
    host = only_host(session, host_moid, items)
    portgroup = _found(items, write.network_moid, write.network_name)
    switch = _read(session, _UUID, portgroup.moid_of("config.distributedVirtualSwitch"), write.network_name)
    spec = new_vmknic(write)
    spec.distributedVirtualPort = vim.dvs.PortConnection(
        switchUuid=switch.get("uuid"), portgroupKey=portgroup.get("key")
    )
    with translated(f"creating a VMkernel NIC on {write.network_name}", host.name):
        # The portgroup's name must be empty where a distributed one is given (AddVirtualNic).
        host.manager("networkSystem").AddVirtualNic("", spec)


def _change_vmknic(session: Session, host_moid: str, write: VmknicWrite, device: str) -> None:
    host = read_managers(session, host_moid, "networkSystem", "config.network.vnic")
    for nic in host.require("config.network.vnic", "VMkernel NICs"):
        if nic.device == device:
            spec = changed_vmknic(nic.spec, write)
            with translated(f"changing {device}", host.name):
                host.manager("networkSystem").UpdateVirtualNic(device, spec)
            return
    raise _gone(f"the host has no VMkernel NIC {device}", host.name)


def new_vmknic(write: VmknicWrite) -> Any:
    """Return the spec of a new VMkernel NIC; one without an address asks DHCP."""
    return vim.host.VirtualNic.Specification(ip=ip_config(write.address or "dhcp"), mtu=write.mtu)


def changed_vmknic(current: Any, write: VmknicWrite) -> Any:
    """Return a VMkernel NIC's spec with another address or MTU.

    The fields that tie it to its network are left out, since they would name a new one, and an address from
    DHCP cannot be sent back (HostIpConfig). Unset fields stay, except the MTU and segmentation offload, which
    fall back to a default (govmomi, HostVirtualNicSpec; community.vmware's vmware_vmkernel sends address and
    MTU alone). That IPv6 addresses stay where only IPv4 is sent is unproven.
    """
    return vim.host.VirtualNic.Specification(
        ip=ip_config(write.address) if write.address is not None else _kept(current.ip),
        mtu=write.mtu if write.mtu is not None else current.mtu,
        tsoEnabled=current.tsoEnabled,
        ipRouteSpec=current.ipRouteSpec,
    )


def _kept(ip: Any) -> Any:
    if ip is None or ip.dhcp:
        return None if ip is None else vim.host.IpConfig(dhcp=True)
    return vim.host.IpConfig(dhcp=False, ipAddress=ip.ipAddress, subnetMask=ip.subnetMask)


def ip_config(address: str) -> Any:
    """Return an IP configuration for "dhcp" or an IPv4 address with its prefix length."""
    if address == "dhcp":
        return vim.host.IpConfig(dhcp=True)
    try:
        interface = IPv4Interface(address)
    except ValueError as error:
        raise VCenterError(
            f"{address} is not an IPv4 address with a prefix length",
            subject=address,
            remedy="use an address like 192.168.10.11/24, or dhcp",
        ) from error
    return vim.host.IpConfig(dhcp=False, ipAddress=str(interface.ip), subnetMask=str(interface.netmask))


def write_switch(session: Session, host_moid: str, write: SwitchWrite) -> None:
    """Set the MTU or the uplinks of a host's standard switch: two round trips.

    Raises StalePlan if its uplinks are no longer those from which the new ones were made.
    """
    host = read_managers(session, host_moid, "networkSystem", "config.network.vswitch")
    for switch in host.require("config.network.vswitch", "switches"):
        if switch.name == write.switch:
            _check_uplinks(switch.spec, write, host.name)
            spec = changed_switch(switch.spec, write)
            with translated(f"changing {write.switch}", host.name):
                host.manager("networkSystem").UpdateVirtualSwitch(write.switch, spec)
            return
    raise _gone(f"the host has no switch {write.switch}", host.name)


def _check_uplinks(spec: Any, write: SwitchWrite, host_name: str) -> None:
    if write.uplinks is None:
        return
    found = uplinks_of(spec)
    if set(found) not in (set(write.before), set(write.uplinks)):
        raise StalePlan(
            f"the uplinks on {write.switch} are now {', '.join(found) or 'none'}, but were "
            f"{', '.join(write.before) or 'none'} when planned",
            subject=host_name,
            remedy="run the same command again to plan from the current state",
        )


def uplinks_of(spec: Any) -> tuple[str, ...]:
    """Return the NICs of a standard switch's spec; none where it has no bridge, or one of another kind."""
    return tuple(getattr(spec.bridge, "nicDevice", None) or ())


def changed_switch(spec: Any, write: SwitchWrite) -> Any:
    """Return a standard switch's spec, as read, with another MTU or other uplinks.

    A teaming order may name uplinks of the switch only: those that go leave it. The others keep their place,
    also one that is neither active nor standby (unused); new ones become active.
    """
    if write.mtu is not None:
        spec.mtu = write.mtu
    if write.uplinks is not None:
        before = uplinks_of(spec)
        if not write.uplinks:
            spec.bridge = None
        elif isinstance(spec.bridge, vim.host.VirtualSwitch.BondBridge):
            spec.bridge.nicDevice = list(write.uplinks)
        else:
            spec.bridge = vim.host.VirtualSwitch.BondBridge(nicDevice=list(write.uplinks))
        order = getattr(getattr(spec.policy, "nicTeaming", None), "nicOrder", None)
        if order is not None:
            order.standbyNic = [nic for nic in order.standbyNic or () if nic in write.uplinks]
            kept = [nic for nic in order.activeNic or () if nic in write.uplinks]
            order.activeNic = [*kept, *(nic for nic in write.uplinks if nic not in before)]
    return spec


def change_network(session: Session, change: ChangeNetwork) -> str:
    """Make or change a distributed switch or portgroup, and return its task.

    One round trip to make a portgroup, two for the rest. Raises NotFound for an object without an id.
    """
    network = change.network
    match network:
        case MakeSwitch():
            folder = vim.Folder(_network_folder(session, network), session.stub)
            config = vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(
                name=escaped(network.name), maxMtu=network.mtu
            )
            spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=config)
            with translated(f"creating the switch {network.name}", network.name):
                return _moid(folder.CreateDVS_Task(spec))
        case EditSwitch():
            item = _read(session, _SWITCH, network.switch_moid, network.switch_name)
            spec = switch_edit(item, network)
            with translated(f"changing the switch {network.switch_name}", network.switch_name):
                return _moid(vim.DistributedVirtualSwitch(item.moid, session.stub).ReconfigureDvs_Task(spec))
        case SetPortgroup():
            return _set_portgroup(session, network)
        case _:
            assert_never(network)


def _network_folder(session: Session, network: MakeSwitch) -> str:
    item = _read(session, _DATACENTER, network.datacenter_moid, network.name)
    folder = item.moid_of("networkFolder")
    if folder is None:
        raise _gone("the datacenter has no network folder", network.name)
    return folder


def _set_portgroup(session: Session, network: SetPortgroup) -> str:
    spec = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(defaultPortConfig=port_setting(network.vlan))
    if network.portgroup_moid is not None:
        item = _read(session, _PORTGROUP, network.portgroup_moid, network.name)
        spec.configVersion = item.get("config.configVersion")
        portgroup = vim.dvs.DistributedVirtualPortgroup(item.moid, session.stub)
        with translated(f"changing the port group {network.name}", network.name):
            return _moid(portgroup.ReconfigureDVPortgroup_Task(spec))
    if network.switch_moid is None:
        raise _gone("the switch does not exist yet", network.switch_name)
    spec.name = escaped(network.name)
    spec.type = "earlyBinding"
    spec.numPorts = network.ports
    spec.autoExpand = True
    switch = vim.DistributedVirtualSwitch(network.switch_moid, session.stub)
    with translated(f"creating the port group {network.name}", network.name):
        return _moid(switch.AddDVPortgroup_Task([spec]))


def port_setting(vlan: int | None) -> Any:
    """Return the settings of a portgroup's ports as far as they name a VLAN; 0 is none."""
    if vlan is None:
        return None
    return vim.dvs.VmwareDistributedVirtualSwitch.VmwarePortConfigPolicy(
        vlan=vim.dvs.VmwareDistributedVirtualSwitch.VlanIdSpec(vlanId=vlan, inherited=False)
    )


def switch_edit(item: Item, network: EditSwitch) -> Any:
    """Return the change to a distributed switch, with the version that was read."""
    return vim.dvs.VmwareDistributedVirtualSwitch.ConfigSpec(
        configVersion=item.get("config.configVersion"),
        maxMtu=network.mtu,
        host=member_specs(network.members, item.get("config.host") or ()),
    )


def member_specs(wanted: Mapping[str, Sequence[str]], members: Iterable[Any]) -> list[Any]:
    """Return what makes hosts members of a switch with these uplinks.

    A host that is one keeps the uplinks that it has, each at its port; where none is missing it is
    left out.
    """
    known = {str(member.config.host._moId): member for member in members if member.config.host is not None}
    specs = []
    for host_moid, uplinks in wanted.items():
        member = known.get(host_moid)
        kept = [] if member is None else list(getattr(member.config.backing, "pnicSpec", None) or ())
        held = {spec.pnicDevice for spec in kept}
        missing = [nic for nic in uplinks if nic not in held]
        if member is not None and not missing:
            continue
        added = [vim.dvs.HostMember.PnicSpec(pnicDevice=nic) for nic in missing]
        specs.append(
            vim.dvs.HostMember.ConfigSpec(
                operation="add" if member is None else "edit",
                host=vim.HostSystem(host_moid),
                backing=vim.dvs.HostMember.PnicBacking(pnicSpec=[*kept, *added]),
            )
        )
    return specs


def _read(session: Session, paths: Paths, moid: str | None, name: str) -> Item:
    if moid is None:
        raise _gone("it does not exist yet", name)
    return _found(collect_from(session, (paths,), [Start(paths.type_name, moid)]), moid, name)


def _found(items: Iterable[Item], moid: str, name: str) -> Item:
    for item in items:
        if item.moid == moid:
            return item
    raise _gone("it no longer exists", name)


def _gone(message: str, subject: str) -> NotFound:
    return NotFound(message, subject=subject, remedy="plan again; the inventory has changed")


def _moid(task: Any) -> str:
    return str(task._moId)
