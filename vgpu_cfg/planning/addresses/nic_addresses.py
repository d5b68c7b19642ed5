"""Which address, MAC or driver each NIC of a plan's VMs has in its guest.

A NIC with `ip: pool` keeps the address that is kept on its VM (`vgpu_cfg.addresses`); new ones get the
lowest of the pool that nobody uses, in the order of the VMs. So a worker that is added or removed changes
no other's address. The guest finds a NIC by its driver where the VM has no other of that driver, else by
its MAC: which of the two does not depend on whether the VM exists already, and so a second run finds the
same. `planning.pools` gives the addresses, `planning.nic_identity` tells NICs apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.desired import DesiredNic, DesiredPlan, DesiredVm
from vgpu_cfg.model.guests.base import KeptAddress, print_addresses
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.rdma import mtu_of, network_of
from vgpu_cfg.planning.addresses.address_pools import AddressPools
from vgpu_cfg.planning.addresses.nic_identity import NicIdentities, NicType, type_of
from vgpu_cfg.planning.estate.ownership import is_marked
from vgpu_cfg.planning.findings.collection import Findings


@dataclass(frozen=True, slots=True)
class NicAddress:
    """One NIC as its guest shall have it, in the order of the plan file.

    `network` is the name that the plan file gives, "" for none. The guest finds the NIC by `mac`, or by
    its `driver` where `mac` is empty; both are empty where nothing tells it from another one. `addresses`
    are CIDR, `gateway` and `dns` those of its network, where it gets an address that is no DHCP's.
    `is_stated` is False where the plan file says nothing of its address: then the guest's own settings stay.
    """

    network: str
    type: NicType
    mac: str = ""
    driver: str = ""
    addresses: tuple[str, ...] = ()
    dhcp: bool = False
    gateway: str = ""
    dns: tuple[str, ...] = ()
    mtu: int | None = None
    rdma: Literal["gpudirect", "host"] | None = None

    @property
    def is_stated(self) -> bool:
        """Whether the plan file says what address it has."""
        return self.dhcp or bool(self.addresses)


def own_vms(desired: DesiredPlan, observed: Inventory) -> dict[str, Vm]:
    """Return the VMs that this plan's mark is on, by their names in the plan file."""
    names = {vm.name for vm in desired.vms}
    own = (vm for vm in observed.vms if vm.is_of(desired.identity) and vm.name in names)
    ordered = sorted(own, key=lambda vm: vm.moid, reverse=True)
    return {vm.name: vm for vm in ordered if is_marked(vm, desired.identity)}


class AddressBook:
    """The addresses of one plan, given once; NICs are asked for VM by VM, as they find their places."""

    def __init__(
        self,
        desired: DesiredPlan,
        observed: Inventory,
        existing: Mapping[str, Vm] | None = None,
        findings: Findings | None = None,
    ) -> None:
        findings = findings if findings is not None else Findings()
        self._desired = desired
        self._existing = dict(existing) if existing is not None else own_vms(desired, observed)
        self._pools = AddressPools(desired, observed, self._existing, findings)
        self._identities = NicIdentities(desired, observed, self._existing, findings)

    @property
    def default_macs(self) -> Mapping[tuple[str, int], str]:
        """The fixed MACs that new virtual NICs get so that their guests can tell them apart.

        By VM and the NIC's place.
        """
        return self._identities.default_macs

    def nics_of(
        self, vm: DesiredVm, host_moid: str | None = None, functions: Iterable[str] = ()
    ) -> tuple[NicAddress, ...]:
        """Return a VM's NICs; `functions` are the addresses of those that are functions, in their order."""
        known = self._identities.of(vm, host_moid, tuple(functions))
        return tuple(
            self._nic(vm, index, nic, *identity)
            for index, (nic, identity) in enumerate(zip(vm.nics, known, strict=True))
        )

    def nics_of_all(self, placements: Iterable[Placement] = ()) -> dict[str, tuple[NicAddress, ...]]:
        """Return the NICs of each VM, by its name; `placements` say which functions a VM gets.

        The inventory is as it was read: a host lists the MAC of a NIC only until that is passed through.
        """
        placed = {one.vm: (one.host_moid, one.nic_pci_ids) for one in placements}
        return {vm.name: self.nics_of(vm, *placed.get(vm.name, (None, ()))) for vm in self._desired.vms}

    def record_of(self, vm: DesiredVm, nics: Iterable[NicAddress]) -> str:
        """Return what is kept on the VM (`ADDRESSES_KEY`); "" where its pools gave it nothing."""
        kept: dict[int, KeptAddress] = {}
        for index, nic in enumerate(nics):
            address = self._pools.given.get((vm.name, index), "")
            mac = nic.mac if nic.type == "passthrough" and not vm.nics[index].mac else ""
            if address or mac:
                kept[index] = KeptAddress(address=address, mac=mac)
        return print_addresses(kept)

    def _nic(self, vm: DesiredVm, index: int, nic: DesiredNic, mac: str, driver: str) -> NicAddress:
        network = network_of(self._desired, nic)
        address = self._pools.given.get((vm.name, index)) or (nic.ip if nic.ip and "/" in nic.ip else "")
        return NicAddress(
            network=nic.network or "",
            type=type_of(nic),
            mac=mac,
            driver=driver,
            addresses=(address,) if address else (),
            dhcp=nic.ip == "dhcp",
            gateway=(network.gateway or "") if network is not None and address else "",
            dns=network.dns if network is not None and address else (),
            mtu=mtu_of(nic, network),
            rdma=nic.rdma,
        )
