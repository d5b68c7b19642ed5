"""Peers in training: a training's VMs, their names and addresses, and their NICs with netplan settings.

All of them must be able to reach each other, so one network is looked for on which each has an address that
the plan knows: that of the training first, then any other. The workers' processes communicate over the
network of the training, on which a head is not required.

The NICs of a guest are those with RDMA and those without.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.desired import DesiredGuest, DesiredNic, DesiredPlan, DesiredTraining, DesiredVm
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.plan_file.guest_values import DOMAIN_PATTERN
from vgpu_cfg.planning.addresses import NicAddress

Addresses = Mapping[str, Sequence[NicAddress]]
"""By the name of a VM its NICs, in the order of the plan file."""


@dataclass(frozen=True, slots=True)
class PlannedNic:
    """A NIC of a VM: the plan file's request, and the guest's settings."""

    desired: DesiredNic
    guest: GuestNic
    network: str = ""

    @property
    def is_rdma(self) -> bool:
        """Whether it carries RDMA."""
        return self.desired.rdma is not None

    @property
    def is_whole(self) -> bool:
        """Whether it is passed through whole, so that its port is the guest's own."""
        return self.desired.function is not None and self.desired.function.kind == "passthrough"

    @property
    def address(self) -> str:
        """Its address without the prefix length, "" where the plan does not know it."""
        return self.guest.addresses[0].partition("/")[0] if self.guest.addresses else ""

    @property
    def subnet(self) -> str:
        """The network that its address is in, as CIDR; "" where that is not known."""
        if not self.guest.addresses:
            return ""
        return str(ipaddress.ip_interface(self.guest.addresses[0]).network)

    @property
    def is_stated(self) -> bool:
        """Whether the plan says anything of it to the guest."""
        return self.guest.dhcp or bool(self.guest.addresses) or self.is_rdma


def planned_nics(vm: DesiredVm, addresses: Addresses) -> tuple[PlannedNic, ...]:
    """Return the NICs of a VM in its plan's order."""
    known = addresses.get(vm.name, ())
    return tuple(
        PlannedNic(nic, _guest_nic(facts), facts.network) for nic, facts in zip(vm.nics, known, strict=False)
    )


def _guest_nic(facts: NicAddress) -> GuestNic:
    """Say of a NIC what netplan needs; boot goes on without one that only carries RDMA."""
    return GuestNic(
        mac=facts.mac,
        driver="" if facts.mac else facts.driver,
        addresses=facts.addresses,
        dhcp=facts.dhcp,
        gateway=facts.gateway,
        dns=facts.dns,
        mtu=facts.mtu,
        optional=facts.rdma is not None,
    )


@dataclass(frozen=True, slots=True)
class Peer:
    """A VM of a training. `address` is that by which the others reach it, "" where the plan knows none.

    `training_address` is the one on the network that carries the training, "" where the plan knows none.
    """

    vm: DesiredVm
    guest: DesiredGuest
    nics: tuple[PlannedNic, ...]
    address: str = ""
    subnet: str = ""
    slots: int = 1
    training_address: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Its names: the full one first where it has a domain, as /etc/hosts wants the canonical one.

        The VM's own name is among them where a resolver could take it.
        """
        full = f"{self.guest.host_name}.{self.guest.domain}" if self.guest.domain else ""
        own = self.vm.name if re.fullmatch(DOMAIN_PATTERN, self.vm.name) else ""
        return tuple(dict.fromkeys(name for name in (full, self.guest.host_name, own) if name))

    @property
    def rdma_nics(self) -> tuple[PlannedNic, ...]:
        """The NICs that carry RDMA."""
        return tuple(nic for nic in self.nics if nic.is_rdma)

    @property
    def other_nics(self) -> tuple[PlannedNic, ...]:
        """The NICs that carry everything else."""
        return tuple(nic for nic in self.nics if not nic.is_rdma)


@dataclass(frozen=True, slots=True)
class Team:
    """The VMs of a training: workers in the plan's order, and the head where that is none of them."""

    training: DesiredTraining
    workers: tuple[Peer, ...]
    head: Peer | None = None

    @property
    def everyone(self) -> tuple[Peer, ...]:
        """Workers, then the head."""
        return (*self.workers, *((self.head,) if self.head is not None else ()))

    @property
    def launcher(self) -> Peer | None:
        """The VM from which training starts."""
        return self.head or next(iter(self.workers), None)

    def peer(self, name: str) -> Peer | None:
        """Return the peer that a VM is, None for one that does not take part."""
        return next((one for one in self.everyone if one.vm.name == name), None)

    def is_worker(self, name: str) -> bool:
        """Whether a VM is a worker."""
        return any(one.vm.name == name for one in self.workers)


def make_team(desired: DesiredPlan, addresses: Addresses) -> Team | None:
    """Gather the VMs of the plan's training, but for those without a `guest`; None without a training."""
    training = desired.training
    if training is None:
        return None
    by_name = {vm.name: vm for vm in desired.vms}
    names = [*training.workers, *((training.head,) if training.head else ())]
    nics = {name: planned_nics(by_name[name], addresses) for name in names if name in by_name}
    meeting = meeting_network(training, [nics[name] for name in nics])
    workers_nics = [nics[name] for name in training.workers if name in nics]
    carrying = training.rdma_network or meeting_network(training, workers_nics)

    def peer(name: str) -> Peer | None:
        vm = by_name.get(name)
        if vm is None or vm.guest is None or not vm.guest.is_staged:
            return None
        nic = _reached_by(nics[name], meeting)
        address, subnet = (nic.address, nic.subnet) if nic is not None else ("", "")
        slots = training.slots or max(1, len(vm.gpus))
        on_it = (nic.address for nic in nics[name] if carrying is not None and _is_on(nic, carrying))
        return Peer(vm, vm.guest, nics[name], address, subnet, slots, next(on_it, ""))

    workers = tuple(one for name in training.workers if (one := peer(name)) is not None)
    return Team(training, workers, peer(training.head) if training.head else None)


def meeting_network(training: DesiredTraining, nics: Sequence[Sequence[PlannedNic]]) -> str | None:
    """Return the network on which every VM has an address that the plan knows, None where there is none."""
    wanted = [training.rdma_network] if training.rdma_network else []
    wanted += [nic.network for one in nics for nic in one]
    for network in dict.fromkeys(name for name in wanted if name):
        if all(any(_is_on(nic, network) for nic in one) for one in nics):
            return network
    return None


def _reached_by(nics: Sequence[PlannedNic], meeting: str | None) -> PlannedNic | None:
    """Return the NIC by which a VM is reached: on the network where all meet, else any with an address."""
    of_meeting = (nic for nic in nics if meeting is not None and _is_on(nic, meeting))
    return next(of_meeting, None) or next((nic for nic in nics if nic.address), None)


def _is_on(nic: PlannedNic, network: str) -> bool:
    return nic.network == network and bool(nic.address)
