"""Network settings beyond a plan's own: users that a change would disturb, and the physical switch's ports.

Disturbed are users of a distributed switch or portgroup by a lower MTU or another VLAN. Known are the
VMkernel NICs of the hosts that the plan reads and the devices of the VMs that were read in detail. A warning
reports that nothing is known of the other hosts and VMs that may be there.

For a plan's RDMA networks the physical switch needs settings of its ports, with their values. No API of
vSphere reaches that switch, so nothing here becomes a change: it is only reported.

Belief: network-lists-stopped-vms, mtu-of-a-distributed-switch, mtu-of-a-standard-switch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredNetwork, DesiredNic, DesiredPlan, DesiredVm, mtu_of, network_of
from vgpu_cfg.model.observed.host_facts import DistributedSwitch, FactGroup, Vmknic
from vgpu_cfg.model.observed.inventory import Host, Inventory, Network
from vgpu_cfg.model.plan_file import TrainingRoceEntry
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.estate.site import find_named
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.resolved_host import hosts_of

_SHOWN = 6

LARGEST_FRAME = 9216
"""Bytes: what physical switches take at most, headers included; 9000 of a NIC fit with all around them."""


@dataclass(slots=True)
class _Users:
    """The known users of some networks, in words, and the possible ones: unread hosts and VMs."""

    known: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def check_lower_mtu(
    switch: DistributedSwitch, mtu: int, desired: DesiredPlan, observed: Inventory, findings: Findings
) -> bool:
    """Whether a switch may get a lower MTU: an error if a VMkernel NIC or a VM's NIC on it uses a larger one.

    Of VMs only those of the plan are known to use one: the plan file says what their guests get.
    """
    subject = Subject(kind="network", name=switch.name, moid=switch.moid)
    networks = set(switch.portgroup_vlans)
    for network in observed.networks:
        if switch.uuid and network.switch_uuid == switch.uuid:
            networks |= _ids(network)
    users = _Users()
    for host in _in_order(observed.hosts):
        vmknics = _vmknics(host, observed)
        if vmknics is None:
            if host.moid in switch.members:
                users.unread.append(host.name)
            continue
        for vmknic in vmknics:
            if vmknic.network_moid in networks and vmknic.mtu > mtu:
                users.known.append(_user_text(vmknic, host, str(vmknic.mtu)))
    users.known += sorted(_own_nics_above(mtu, networks, desired, observed), key=as_counted)
    if users.known:
        message = (
            f"{switch.name} would be set to MTU {mtu}, but NICs on it use a larger one: "
            f"{listed(users.known, shown=_SHOWN)}"
        )
        remedy = "reduce their MTU first and run `plan` again, or keep the network's `mtu`"
        findings.add(Code.MTU_TOO_SMALL, subject, message, remedy)
        return False
    if users.unread:
        message = (
            f"{switch.name} would be set to MTU {mtu}, but the VMkernel NICs of "
            f"{listed(users.unread, shown=_SHOWN)} on it could not be read"
        )
        remedy = "check in vCenter that none of these NICs has a larger MTU"
        findings.add(Code.MTU_TOO_SMALL, subject, message, remedy, Severity.WARNING)
    return True


def _own_nics_above(
    mtu: int, networks: Collection[str], desired: DesiredPlan, observed: Inventory
) -> Iterator[str]:
    for vm in desired.vms:
        for nic in vm.nics:
            wanted = mtu_of(nic, network_of(desired, nic))
            if nic.network is None or wanted is None or wanted <= mtu:
                continue
            if any(one.moid in networks for one in find_named(nic.network, observed.networks)):
                yield f"{vm.name} on {nic.network} ({wanted})"


def check_vlan(
    line: DesiredNetwork, found: Network, desired: DesiredPlan, observed: Inventory, findings: Findings
) -> bool:
    """Whether a portgroup may be given another VLAN: an error if that cuts off users outside the plan.

    The plan's own are its VMs, and the VMkernel NICs that it names, unless the host uses one for a service of
    its own (management, vMotion, vSAN).
    """
    subject = Subject(kind="network", name=line.name, moid=found.moid)
    users = _Users()
    for host in _in_order(observed.hosts):
        vmknics = _vmknics(host, observed)
        if vmknics is None:
            if found.moid in host.network_moids:
                users.unread.append(host.name)
            continue
        users.known += [
            _user_text(vmknic, host)
            for vmknic in vmknics
            if vmknic.network_moid in _ids(found)
            and (vmknic.services or not _is_managed(host, found, desired, observed))
        ]
    _take_vms(users, found, desired, observed)
    if users.known:
        message = (
            f"changing to VLAN {line.vlan} would disconnect objects on {line.name}: "
            f"{listed(users.known, shown=_SHOWN)}"
        )
        remedy = "create a new port group for this VLAN, or move the objects to another one first"
        findings.add(Code.DISRUPTION_NOT_ALLOWED, subject, message, remedy)
        return False
    if users.unread:
        message = (
            f"cannot determine whether VLAN {line.vlan} affects objects on {line.name}, because they could "
            f"not be read on "
            f"{listed(users.unread, shown=_SHOWN)}"
        )
        remedy = "check in vCenter that nothing is connected to the port group"
        findings.add(Code.DISRUPTION_NOT_ALLOWED, subject, message, remedy, Severity.WARNING)
    return True


def _take_vms(users: _Users, found: Network, desired: DesiredPlan, observed: Inventory) -> None:
    """Add the VMs that are not the plan's, running or not."""
    own = {vm.name for vm in desired.vms}
    for vm in sorted(observed.vms, key=lambda one: as_counted(one.name)):
        is_own = vm.is_of(desired.identity) and vm.name in own
        if vm.is_template or is_own:
            continue
        if vm.detail is not None or observed.facts.network_vms is not None:
            if vm.moid in (observed.facts.network_vms or {}).get(found.moid, ()) or (
                vm.detail is not None and any(nic.network in _ids(found) for nic in vm.detail.nics)
            ):
                users.known.append(vm.name)
            continue
        host = observed.host_by_moid.get(vm.host_moid or "")
        if host is None or found.moid in host.network_moids:
            users.unread.append(vm.name)


def _is_managed(host: Host, found: Network, desired: DesiredPlan, observed: Inventory) -> bool:
    """Whether the plan file names the host's VMkernel NIC on a network."""
    return any(
        found in find_named(vmknic.network, observed.networks)
        for entry in desired.hosts
        if entry.vmknics and host in hosts_of(entry, desired, observed)
        for vmknic in entry.vmknics
    )


def _vmknics(host: Host, observed: Inventory) -> Iterable[Vmknic] | None:
    """Return the host's VMkernel NICs, None where they were not read."""
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or FactGroup.BASE in facts.unread:
        return None
    return facts.vmknics


def _ids(network: Network) -> set[str]:
    """Return what devices name a network by: its moid, and a distributed one's key."""
    return {network.moid, network.portgroup_key or network.moid}


def _user_text(vmknic: Vmknic, host: Host, *more: str) -> str:
    words = ", ".join((*more, *vmknic.services))
    return f"{vmknic.device} of {host.name}" + (f" ({words})" if words else "")


def _in_order(hosts: Iterable[Host]) -> Iterator[Host]:
    yield from sorted(hosts, key=lambda host: (as_counted(host.name), host.moid))


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """The port that a NIC is cabled to.

    `host` is "" if the VM has no place yet, `pci_id` if its function of the host is unknown. `is_tagged` is
    whether the NIC marks its packets with the VLAN itself.
    """

    host: str
    pci_id: str
    vm: str
    is_tagged: bool


@dataclass(frozen=True, slots=True)
class SwitchNeeds:
    """The requirements of one network's ports. `vlan` is None if the plan has none; `mtu` is the NICs'."""

    network: str
    vlan: int | None
    mtu: int | None
    dscp: int
    priority: int
    ports: tuple[SwitchPort, ...]

    @property
    def is_tagged(self) -> bool:
        """Whether any of the ports carries the VLAN's tag."""
        return any(port.is_tagged for port in self.ports)


def switch_needs(plan: Plan) -> tuple[SwitchNeeds, ...]:
    """List the networks that a plan's RDMA runs over, in the plan's order, with ports by host and VM."""
    desired = plan.desired
    marks = desired.training.roce if desired.training is not None else TrainingRoceEntry()
    told = {network.name: network for network in desired.networks}
    ports = defaultdict(list)
    for name, port in _ports(plan):
        ports[name].append(port)
    found = []
    for name in sorted(ports, key=[*told, *ports].index):
        network = told.get(name, DesiredNetwork(name=name))
        by_place = sorted(ports[name], key=lambda port: (port.host, port.vm, port.pci_id))
        found.append(
            SwitchNeeds(name, network.vlan, network.mtu, marks.dscp, marks.priority, tuple(by_place))
        )
    return tuple(found)


def _ports(plan: Plan) -> Iterator[tuple[str, SwitchPort]]:
    """Yield each NIC that RDMA runs over, with its network."""
    places = {place.vm: place for place in plan.placements}
    physical = {one.name for one in plan.desired.networks if one.is_physical}
    for vm in plan.desired.vms:
        place = places.get(vm.name)
        functions = iter(place.nic_pci_ids if place is not None else ())
        for nic in vm.nics:
            pci_id = next(functions, "") if nic.function is not None else ""
            if nic.network is not None and _is_rdma(plan.desired, vm, nic):
                host = place.host_name if place is not None else ""
                yield nic.network, SwitchPort(host, pci_id, vm.name, is_tagged=nic.network not in physical)


def _is_rdma(desired: DesiredPlan, vm: DesiredVm, nic: DesiredNic) -> bool:
    """Whether RDMA runs over a NIC: it asks for that, or it is a worker's in the network of training."""
    if nic.rdma is not None or nic.is_pvrdma:
        return True
    training = desired.training
    return training is not None and nic.network == training.rdma_network and vm.name in training.workers
