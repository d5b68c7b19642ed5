"""What the physical switch must do for a plan's RDMA networks: for which ports, and with which values.

No API of vSphere reaches that switch, so nothing here becomes a change: it is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredNetwork, DesiredNic, DesiredPlan, DesiredVm
from vgpu_cfg.model.plan_file import TrainingRoceEntry

LARGEST_FRAME = 9216
"""Bytes: what physical switches take at most, headers included; 9000 of a NIC fit with all around them."""


@dataclass(frozen=True, slots=True)
class SwitchPort:
    """The port that a NIC is cabled to.

    `host` is "" where the VM has no place yet, `pci_id` where nobody knows which of the host's functions it
    gets. `is_tagged` says whether the NIC marks its packets with the VLAN itself.
    """

    host: str
    pci_id: str
    vm: str
    is_tagged: bool


@dataclass(frozen=True, slots=True)
class SwitchNeeds:
    """What the ports of one network need. `vlan` is None where the plan does not say; `mtu` is the NICs'."""

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
