"""Distributed switches and their portgroups: made, changed, joined by hosts, and links that go down with it.

The parts of a spec that the lab does not keep (policies, port mirroring, traffic shares) are accepted
unchecked. An MTU is not compared with those of VMkernel NICs: that vCenter would refuse one is unproven.

Of a port's settings security and shaping are kept and shown, and go unjudged. Private VLANs are not carried
out. That an uplink which the switch has not is refused, and as an invalid argument, is assumed.

"Changing the MTU on a virtual distributed switch will cause the uplinks to be brought down and up", on all of
its hosts (Broadcom KB 419088). That a standard switch's MTU does so, too, is assumed, and that an uplink that
a switch loses disturbs everything on it, while one more disturbs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.operations.vms.drafts import check_name
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import resolve, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import is_set, merged, network_of, nics_of
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Folder, Host, LabState, Network, VirtualMachine
from vgpu_cfg.lab.state.managed import Experience
from vgpu_cfg.lab.state.switch_members import (
    EVERY_VLAN,
    MOST_UPLINKS,
    connect,
    disconnect,
    hide_from,
    port_keys,
    portgroups_on,
    show_to,
    uplinks_of,
    used_portgroup,
    visible_nics,
)

_Vlan = tuple[int, tuple[tuple[int, int], ...]]
"""A VLAN, 0 for none, and the ranges of a trunk."""

BINDINGS = ("earlyBinding", "lateBinding", "ephemeral")
POLICIES = (
    "loadbalance_ip",
    "loadbalance_srcmac",
    "loadbalance_srcid",
    "failover_explicit",
    "loadbalance_loadbased",
)
"""The words of vim `DistributedVirtualSwitchNicTeamingPolicyMode`."""
HIGHEST_VLAN = 4094


@task(
    "DistributedVirtualSwitch",
    "AddDVPortgroup_Task",
    description_id="DistributedVirtualSwitch.addPortgroups",
    seconds=2.0,
)
def add_portgroups(lab: Simulation, switch: DistributedSwitch, *, spec: list[Any]) -> None:
    """Make portgroups on a switch, all or none. Raises DuplicateName, InvalidName, InvalidArgument."""
    names = [one.name for one in spec]
    if len(set(names)) != len(names):
        raise refusals.bad_argument("spec.name")
    _check(lab, switch, spec)
    for one in spec:
        _make(lab, switch, one)


@task(
    "DistributedVirtualSwitch",
    "CreateDVPortgroup_Task",
    description_id="DistributedVirtualSwitch.addPortgroup",
    seconds=2.0,
)
def create_portgroup(lab: Simulation, switch: DistributedSwitch, *, spec: Any) -> Network:
    """Make one portgroup on a switch. Raises DuplicateName, InvalidName, InvalidArgument."""
    _check(lab, switch, [spec])
    return _make(lab, switch, spec)


def _check_portgroup(lab: Simulation, portgroup: Network, *, spec: Any) -> None:
    """Raise NoPermission as the method's description says what needs which privilege."""
    needed = {
        "DVPortgroup.PolicyOp": spec.policy is not None,
        "DVPortgroup.ScopeOp": bool(spec.scope),
        "DVPortgroup.Modify": any(
            value not in (None, "", [])
            for value in (spec.name, spec.numPorts, spec.defaultPortConfig, spec.description, spec.type)
        )
        or spec.autoExpand is not None,
    }
    lab.check_privileges(reference(portgroup), [name for name, is_needed in needed.items() if is_needed])


@task(
    "DistributedVirtualPortgroup",
    "ReconfigureDVPortgroup_Task",
    description_id="dvs.DistributedVirtualPortgroup.reconfigure",
    seconds=2.0,
    check=_check_portgroup,
)
def reconfigure_portgroup(lab: Simulation, portgroup: Network, *, spec: Any) -> None:
    """Change the fields of a spec; unset ones stay. Raises ConcurrentAccess, DuplicateName."""
    state = lab.state
    check_version(spec.configVersion, portgroup.config_version)
    if spec.name is not None:
        check_name(state, state.get(portgroup.parent, Folder), spec.name, portgroup.moid)
    vlan = _vlan_of(spec, (portgroup.vlan, portgroup.trunk))
    _check_type(spec)
    _check_teaming(state.get(portgroup.switch, DistributedSwitch), spec)
    portgroup.name = spec.name or portgroup.name
    before = _reach(portgroup)
    _apply(portgroup, spec, vlan)
    if _reach(portgroup) != before:
        for moid in portgroup.hosts:
            disturb(lab, state.get(moid, Host), [portgroup.moid], "network")
    portgroup.config_version += 1
    state.touch(portgroup, state.get(portgroup.switch, DistributedSwitch))


def _reach(portgroup: Network) -> tuple[object, ...]:
    """Return what decides where a port's frames go: VLAN, teaming and the order of uplinks."""
    teaming = getattr(portgroup.settings, "uplinkTeamingPolicy", None)
    return portgroup.vlan, portgroup.trunk, str(teaming)


def check_version(sent: str | None, now: int) -> None:
    """Raise ConcurrentAccess for another version than the present one, InvalidArgument for none.

    That a reconfiguration without a version is refused so is assumed: the API says that it is required.
    """
    if not sent:
        raise refusals.bad_argument("spec.configVersion")
    if sent != str(now):
        raise refusals.changed_meanwhile()


def new_portgroup(lab: Simulation, switch: DistributedSwitch, name: str) -> Network:
    """Put a portgroup of a name into the inventory, seen by all members; a new one is an ordinary one."""
    state = lab.state
    folder = state.get(switch.parent, Folder)
    made = Network(
        moid=state.new_moid("dvportgroup"), name=name, parent=folder.moid, switch=switch.moid, ports=0
    )
    state.add(made)
    folder.children[made.moid] = None
    switch.portgroups.append(made.moid)
    for moid in switch.hosts:
        show_to(state, made, state.get(moid, Host))
    state.touch(folder, switch)
    return made


def _check(lab: Simulation, switch: DistributedSwitch, specs: Iterable[Any]) -> None:
    folder = lab.state.get(switch.parent, Folder)
    for spec in specs:
        check_name(lab.state, folder, spec.name or "")
        _check_type(spec)
        _check_teaming(switch, spec)
        _vlan_of(spec, (0, ()))


def _check_type(spec: Any) -> None:
    if spec.type not in (None, *BINDINGS):
        raise refusals.bad_argument("spec.type")


def _check_teaming(switch: DistributedSwitch, spec: Any) -> None:
    """Raise InvalidArgument for a policy that there is not, or an order of uplinks of elsewhere."""
    teaming, path = getattr(spec.defaultPortConfig, "uplinkTeamingPolicy", None), "spec.defaultPortConfig"
    policy, order = getattr(teaming, "policy", None), getattr(teaming, "uplinkPortOrder", None)
    if policy is not None and policy.value and policy.value not in POLICIES:
        raise refusals.bad_argument(f"{path}.uplinkTeamingPolicy.policy")
    named = (*order.activeUplinkPort, *order.standbyUplinkPort) if order is not None else ()
    if not {*named} <= {*switch.uplink_names} or len({*named}) != len(named):
        raise refusals.bad_argument(f"{path}.uplinkTeamingPolicy.uplinkPortOrder")


def _make(lab: Simulation, switch: DistributedSwitch, spec: Any) -> Network:
    made = new_portgroup(lab, switch, spec.name)
    _apply(made, spec, _vlan_of(spec, (0, ())))
    return made


def _apply(portgroup: Network, spec: Any, vlan: _Vlan) -> None:
    portgroup.vlan, portgroup.trunk = vlan
    _keep_settings(portgroup, spec.defaultPortConfig)
    if spec.numPorts is not None:
        portgroup.ports = int(spec.numPorts)
    if spec.autoExpand is not None:
        portgroup.auto_expand = bool(spec.autoExpand)
    portgroup.binding = spec.type or portgroup.binding
    portgroup.description = portgroup.description if spec.description is None else spec.description


def _keep_settings(portgroup: Network, sent: Any) -> None:
    """Keep the settings other than the VLAN; an order of uplinks replaces the one before."""
    kind: Any = vim.dvs.VmwareDistributedVirtualSwitch.VmwarePortConfigPolicy
    names = [info.name for info in kind._GetPropertyList() if info.name != "vlan"]
    if not isinstance(sent, kind) or not any(is_set(getattr(sent, name)) for name in names):
        return
    portgroup.settings = merged(portgroup.settings or kind(), sent)
    portgroup.settings.vlan = None
    order = getattr(sent.uplinkTeamingPolicy, "uplinkPortOrder", None)
    if order is not None:
        portgroup.settings.uplinkTeamingPolicy.uplinkPortOrder = order


def _vlan_of(spec: Any, now: _Vlan) -> _Vlan:
    """Return the requested VLAN of a spec, the current one if it names none. Raises InvalidArgument."""
    setting = getattr(spec.defaultPortConfig, "vlan", None)
    shapes = vim.dvs.VmwareDistributedVirtualSwitch
    match setting:
        case None:
            return now
        case shapes.VlanSpec() if setting.inherited:
            return 0, ()
        case shapes.VlanIdSpec():
            if not 0 <= setting.vlanId <= HIGHEST_VLAN:
                raise refusals.bad_argument("spec.defaultPortConfig.vlan.vlanId")
            return int(setting.vlanId), ()
        case shapes.TrunkVlanSpec():
            ranges = tuple((int(one.start), int(one.end)) for one in setting.vlanId)
            if not all(0 <= start <= end <= HIGHEST_VLAN for start, end in ranges):
                raise refusals.bad_argument("spec.defaultPortConfig.vlan.vlanId")
            return 0, ranges
        case _:
            raise vmodl.fault.NotSupported(msg="The lab does not support private VLANs")


def drop_links(lab: Simulation, host: Host, switch: DistributedSwitch | str) -> None:
    """Take a switch's uplinks on a host down and up. Without one there is no link to lose."""
    uplinks = uplinks_of(host, switch if isinstance(switch, str) else switch.moid)
    if not uplinks:
        return
    for uplink in uplinks:
        lab.note(host, "link", uplink.device)
    if isinstance(switch, DistributedSwitch):
        disturb(lab, host, switch.portgroups, "link")
    else:
        names = portgroups_on(lab.state, host, host.switches[switch])
        networks = (lab.state.get(moid, Network) for moid in host.networks)
        standard = [network.moid for network in networks if network.name in names and not network.switch]
        disturb(lab, host, [*standard, *names], "link")


def disturb(lab: Simulation, host: Host, portgroups: Collection[str], what: Experience) -> None:
    """Let everything of a host on these portgroups experience something.

    Portgroups are moids of networks, and names of standard ones for VMkernel NICs.
    """
    for vmknic in host.vmknics.values():
        if (vmknic.distributed or vmknic.portgroup) in portgroups:
            lab.note(host, what, vmknic.device)
    for vm in (lab.state.get(moid, VirtualMachine) for moid in host.vms):
        if vm.is_on:
            for nic in nics_of(vm.devices):
                if network_of(nic) in portgroups:
                    lab.note(vm, what, nic.deviceInfo.label)


HOST_NETWORK = "Host.Config.Network"
_PNICS = "spec.host[].backing.pnicSpec[]"
_OTHERS = ("name", "maxMtu", "uplinkPortPolicy", "description", "contact", "maxPorts", "numStandalonePorts")
"""Fields of a ConfigSpec that need DVSwitch.Modify; those that the lab does not know are left out."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A host that joins, changes or leaves: its NICs and their ports then, None for one that leaves."""

    host: Host
    ports: Mapping[str, str] | None


def _check_folder(lab: Simulation, folder: Folder, *, spec: Any) -> None:
    if "DistributedVirtualSwitch" not in folder.child_types:
        raise refusals.not_supported()
    _check_host_privileges(lab, spec.configSpec)


@task(
    "Folder",
    "CreateDVS_Task",
    description_id="Folder.createDistributedVirtualSwitch",
    seconds=3.0,
    check=_check_folder,
)
def create_switch(lab: Simulation, folder: Folder, *, spec: Any) -> DistributedSwitch:
    """Make a switch with its uplink portgroup. Raises DuplicateName, InvalidName, DvsOperationBulkFault."""
    state, config = lab.state, spec.configSpec
    check_name(state, folder, config.name or "")
    moid = state.new_moid("dvs")
    made = DistributedSwitch(
        moid=moid,
        name=config.name,
        parent=folder.moid,
        uuid=_uuid(f"{state.instance_uuid}.{moid}"),
        mtu=getattr(config, "maxMtu", None) or 1500,
    )
    made.uplink_names = _uplink_names(config) or made.uplink_names
    made.discovery = _discovery(config) or made.discovery
    members = _read_members(state, made, config.host or ())
    state.add(made)
    folder.children[moid] = None
    uplinks = new_portgroup(lab, made, f"{made.name}-DVUplinks-{moid.rpartition('-')[2]}")
    uplinks.is_uplink, uplinks.trunk = True, EVERY_VLAN
    made.uplink_portgroup = uplinks.moid
    _apply_members(state, made, members)
    state.touch(folder)
    return made


def _check_privileges(lab: Simulation, switch: DistributedSwitch, *, spec: Any) -> None:
    """Raise NoPermission: members need DVSwitch.HostOp, and Host.Config.Network on each host.

    The method's description names DVSwitch.HostOp next to the wrong field; the other half of its sentence
    shows that it means `host`.
    """
    needed = []
    if spec.host:
        needed.append("DVSwitch.HostOp")
    if any(getattr(spec, name, None) not in (None, "", []) for name in _OTHERS):
        needed.append("DVSwitch.Modify")
    lab.check_privileges(reference(switch), needed)
    _check_host_privileges(lab, spec)


def _check_host_privileges(lab: Simulation, config: Any) -> None:
    for entry in config.host or ():
        lab.check_privileges(entry.host, [HOST_NETWORK])


@task(
    "DistributedVirtualSwitch",
    "ReconfigureDvs_Task",
    description_id="DistributedVirtualSwitch.reconfigure",
    seconds=3.0,
    check=_check_privileges,
)
def reconfigure_switch(lab: Simulation, switch: DistributedSwitch, *, spec: Any) -> None:
    """Change the fields of a spec, all of it or nothing; unset ones stay.

    Raises ConcurrentAccess, DuplicateName, AlreadyExists for a host that is a member, NotFound for one that
    is none, ResourceInUse for one that is in use, DvsOperationBulkFault for the refusal of a host.
    """
    state = lab.state
    check_version(spec.configVersion, switch.config_version)
    if spec.name is not None:
        check_name(state, state.get(switch.parent, Folder), spec.name, switch.moid)
    names, discovery = _uplink_names(spec), _discovery(spec)
    if names and (switch.hosts or spec.host):
        raise vmodl.fault.NotSupported(msg="The lab does not change the uplinks of a switch that has members")
    if getattr(spec, "pvlanConfigSpec", None):
        raise vmodl.fault.NotSupported(msg="The lab does not support private VLANs")
    members = _read_members(state, switch, spec.host or ())
    mtu = getattr(spec, "maxMtu", None) or switch.mtu
    for host in _disturbed(state, switch, members, has_another_mtu=mtu != switch.mtu):
        drop_links(lab, host, switch)
    switch.name = spec.name or switch.name
    switch.mtu = mtu
    switch.uplink_names = names or switch.uplink_names
    switch.discovery = discovery or switch.discovery
    switch.config_version += 1
    _apply_members(state, switch, members)
    state.touch(switch, *(state.get(moid, Host) for moid in switch.hosts))


def _disturbed(
    state: LabState, switch: DistributedSwitch, members: Iterable[_Member], *, has_another_mtu: bool
) -> list[Host]:
    """Return the hosts whose links go down and up: all for another MTU, else those that lose an uplink."""
    if has_another_mtu:
        return [state.get(moid, Host) for moid in switch.hosts]
    now = switch.uplinks
    return [one.host for one in members if now.get(one.host.moid, {}).items() - (one.ports or {}).items()]


def _uplink_names(config: Any) -> tuple[str, ...]:
    """Return the names of uplinks that a spec asks for. Raises InvalidArgument for none, or too many."""
    policy = config.uplinkPortPolicy
    if policy is None:
        return ()
    names = tuple(getattr(policy, "uplinkPortName", ()) or ())
    if not 0 < len(names) <= MOST_UPLINKS:
        raise refusals.bad_argument("spec.uplinkPortPolicy")
    return names


def _discovery(config: Any) -> tuple[str, str] | None:
    """Return a spec's link discovery. Raises InvalidArgument for unknown words."""
    sent = getattr(config, "linkDiscoveryProtocolConfig", None)
    if sent is None:
        return None
    if sent.protocol not in ("cdp", "lldp") or sent.operation not in ("none", "listen", "advertise", "both"):
        raise refusals.bad_argument("spec.linkDiscoveryProtocolConfig")
    return str(sent.protocol), str(sent.operation)


# --------------------------------------------------------------------- members


def _read_members(state: LabState, switch: DistributedSwitch, entries: Iterable[Any]) -> list[_Member]:
    """Check the changes to members, before any is made."""
    found: dict[str, _Member] = {}
    for entry in entries:
        host = resolve(state, entry.host, Host)
        if host.moid in found:
            raise refusals.bad_argument("spec.host")
        found[host.moid] = _read_member(state, switch, host, entry)
    return list(found.values())


def _read_member(state: LabState, switch: DistributedSwitch, host: Host, entry: Any) -> _Member:
    is_member = host.moid in switch.hosts
    match entry.operation:
        case "add" if is_member:
            raise refusals.already_exists(host.name)
        case "edit" | "remove" if not is_member:
            raise refusals.not_found()
        case "remove":
            used = used_portgroup(state, switch, host)
            if used is not None:
                raise vim.fault.ResourceInUse(name=used.name, msg=f"The resource '{used.name}' is in use.")
            return _Member(host, None)
        case "add" | "edit":
            away = refusals.host_away(host)
            if away is not None:
                raise _on_host(host, away)
            return _Member(host, _read_uplinks(switch, host, entry.backing))
        case _:
            raise refusals.bad_argument("spec.host.operation")


def _read_uplinks(switch: DistributedSwitch, host: Host, backing: Any) -> dict[str, str]:
    """Return the NIC for each port: a backing names all of them, none leaves them unchanged.

    A NIC without a port keeps the one that it has, or gets the first that is free. The content of the bulk
    fault for a NIC that another switch uses, or that is not there, is recalled: the fault itself is known to
    name nothing.
    """
    now = switch.uplinks.get(host.moid, {})
    if backing is None:
        return dict(now)
    specs = {spec.pnicDevice: spec for spec in getattr(backing, "pnicSpec", None) or ()}
    nics = {nic.device: nic for nic in visible_nics(host)}
    for device in specs:
        if device not in nics:
            raise _on_host(host, vim.fault.NotFound(msg=f"There is no physical NIC {device}."))
        if nics[device].uplink_of not in ("", switch.moid):
            raise _on_host(
                host, vim.fault.ResourceInUse(name=device, msg=f"The resource '{device}' is in use.")
            )
    ports: dict[str, str] = {}
    keys = port_keys(switch, host.moid)
    for device, spec in specs.items():
        key = spec.uplinkPortKey or now.get(device)
        if spec.uplinkPortgroupKey not in (None, switch.uplink_portgroup):
            raise refusals.bad_argument(_PNICS)
        if key is not None:
            if key not in keys or key in ports.values():
                raise refusals.bad_argument(_PNICS)
            ports[device] = key
    for device in specs:
        if device not in ports:
            ports[device] = _free_port(keys, ports)
    return ports


def _free_port(keys: Iterable[str], taken: Mapping[str, str]) -> str:
    for key in keys:
        if key not in taken.values():
            return key
    raise vim.fault.ResourceNotAvailable(msg="There is no uplink port left on the distributed switch.")


def _apply_members(state: LabState, switch: DistributedSwitch, members: Iterable[_Member]) -> None:
    portgroups = [state.get(moid, Network) for moid in switch.portgroups]
    for member in members:
        if member.ports is None:
            disconnect(switch, member.host)
            for portgroup in portgroups:
                hide_from(state, portgroup, member.host)
        else:
            connect(switch, member.host, member.ports)
            for portgroup in portgroups:
                show_to(state, portgroup, member.host)
        state.touch(member.host)


def _on_host(host: Host, fault: Exception) -> Exception:
    """Say that a host refused its part; the text is recorded (govmomi #3230, a NIC of another switch)."""
    on_host = vim.fault.DvsOperationBulkFault.FaultOnHost(host=vim.HostSystem(host.moid), fault=fault)
    return vim.fault.DvsOperationBulkFault(
        hostFault=[on_host],
        msg="Cannot complete a vSphere Distributed Switch operation for one or more host members.",
    )


def _uuid(seed: str) -> str:
    pairs = uuid5(NAMESPACE_URL, f"dvs.{seed}").bytes
    return "-".join(" ".join(f"{byte:02x}" for byte in half) for half in (pairs[:8], pairs[8:]))
