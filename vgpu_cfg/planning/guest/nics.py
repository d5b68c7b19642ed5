"""Which of a guest's NICs carry RDMA and which the rest, and what netplan is told of each."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from vgpu_cfg.model.desired import DesiredNic, DesiredVm
from vgpu_cfg.model.guest_base import GuestNic


class NicFacts(Protocol):
    """A NIC as its guest shall have it: what the plan gives it, and by what it is found."""

    @property
    def network(self) -> str: ...
    @property
    def mac(self) -> str: ...
    @property
    def driver(self) -> str: ...
    @property
    def addresses(self) -> tuple[str, ...]: ...
    @property
    def dhcp(self) -> bool: ...
    @property
    def gateway(self) -> str: ...
    @property
    def dns(self) -> tuple[str, ...]: ...
    @property
    def mtu(self) -> int | None: ...
    @property
    def rdma(self) -> Literal["gpudirect", "host"] | None: ...


Addresses = Mapping[str, Sequence[NicFacts]]
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
    def is_told(self) -> bool:
        """Whether the plan says anything of it to the guest."""
        return self.guest.dhcp or bool(self.guest.addresses) or self.is_rdma


def planned_nics(vm: DesiredVm, addresses: Addresses) -> tuple[PlannedNic, ...]:
    """Return the NICs of a VM in its plan's order."""
    known = addresses.get(vm.name, ())
    return tuple(
        PlannedNic(nic, _guest_nic(facts), facts.network) for nic, facts in zip(vm.nics, known, strict=False)
    )


def _guest_nic(facts: NicFacts) -> GuestNic:
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
