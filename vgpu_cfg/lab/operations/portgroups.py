"""Distributed portgroups made and changed: their names, VLANs, teaming and ports.

Of a port's settings security and shaping are kept and shown, and go unjudged. Private VLANs are not carried
out. That an uplink which the switch has not is refused, and as an invalid argument, is assumed.

Links that go down and up, and who hangs on them: VMs that run, VMkernel NICs, the uplinks themselves.

"Changing the MTU on a virtual distributed switch will cause the uplinks to be brought down and up", on all of
its hosts (Broadcom KB 419088). That a standard switch's MTU does so, too, is assumed, and that an uplink that
a switch loses disturbs everything on it, while one more disturbs nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.operations.vms.drafts import check_name
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import is_set, merged, network_of, nics_of
from vgpu_cfg.lab.state.diary import Experience
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Folder, Host, Network, VirtualMachine
from vgpu_cfg.lab.state.switch_members import portgroups_on, show_to, uplinks_of

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


def _check_privileges(lab: Simulation, portgroup: Network, *, spec: Any) -> None:
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
    check=_check_privileges,
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
