"""Which of a guest's NICs carry RDMA and which the rest, and what netplan is told of each."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.desired import DesiredNic, DesiredVm
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.planning.addresses.nic_addresses import NicAddress

Addresses = Mapping[str, Sequence[NicAddress]]
"""By the name of a VM its NICs, in the order of the plan file."""


@dataclass(frozen=True, slots=True)
class PlannedNic:
    """A NIC of a VM: what the plan file asks for, and what its guest is told."""

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
