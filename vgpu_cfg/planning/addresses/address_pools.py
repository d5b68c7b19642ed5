"""Free addresses in the networks' pools, the holders of the others, and the next to assign.

An address is in use if it is stated (for another NIC of the plan, a gateway, a name server), if a VM keeps it
or its guest shows it, or if a VMkernel NIC has it. Devices on the wire that are no VMs of this vCenter are
unknown here: pools are the plan's own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_interface, ip_network

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredNetwork, DesiredNic, DesiredPlan, DesiredVm
from vgpu_cfg.model.guests.base import ADDRESSES_KEY, parse_addresses
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.rdma import network_of
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings

POOL = "pool"
_SHOWN = 6

Address = IPv4Address | IPv6Address
Subnet = IPv4Network | IPv6Network


@dataclass(slots=True)
class _AddressPool:
    """One network's pool during assignment. `short` are the VMs for which no address was left.

    `unasked` are the addresses that were not looked at yet: their holders keep them while a plan is made.
    """

    network: DesiredNetwork
    subnet: Subnet
    first: Address
    last: Address
    short: list[str] = field(default_factory=list)
    unasked: Iterator[Address] = field(init=False)

    def __post_init__(self) -> None:
        self.unasked = self.addresses()

    @property
    def size(self) -> int:
        return max(0, int(self.last) - int(self.first) + 1)

    def addresses(self) -> Iterator[Address]:
        """Yield what may be given, from the lowest; a subnet's own address and its broadcast are never."""
        reserved = set()
        if self.subnet.version == 4 and self.subnet.prefixlen < 31:
            reserved = {int(self.subnet.network_address), int(self.subnet.broadcast_address)}
        kind = type(self.first)
        for number in range(int(self.first), int(self.last) + 1):
            if number not in reserved:
                yield kind(number)

    def has(self, address: Address) -> bool:
        is_same_kind = address.version == self.first.version
        return is_same_kind and int(self.first) <= int(address) <= int(self.last)

    def spelt(self, address: Address) -> str:
        return f"{address}/{self.subnet.prefixlen}"

    @property
    def text(self) -> str:
        return f"{self.first}-{self.last}"


class AddressPools:
    """The addresses of a plan's NICs with `ip: pool`; `given` has them by VM and the NIC's place."""

    def __init__(
        self, desired: DesiredPlan, observed: Inventory, existing: Mapping[str, Vm], findings: Findings
    ) -> None:
        self._desired, self._existing, self._findings = desired, existing, findings
        self.given: dict[tuple[str, int], str] = {}
        self._pools: dict[str, _AddressPool | None] = {}
        self._users: dict[Address, str] = {}
        self._seen: dict[Address, dict[str, None]] = {}
        vms = sorted(desired.vms, key=lambda vm: (as_counted(vm.name), vm.name))
        self._take_stated(vms)
        wanting = [
            (vm, index, pool)
            for vm in vms
            for index, nic in enumerate(vm.nics)
            if nic.ip == POOL and (pool := self._pool_of(nic)) is not None
        ]
        if wanting or any(nic.ip and "/" in nic.ip for vm in vms for nic in vm.nics):
            self._take_observed(observed)
        self._assess_stated(vms)
        waiting = [one for one in wanting if not self._keep(*one)]
        for vm, index, pool in waiting:
            self._give(vm, index, pool)
        self._report_short()

    # ------------------------------------------------------------ who uses what

    def _take_stated(self, vms: list[DesiredVm]) -> None:
        """Reserve the plan file's addresses: gateways, name servers, addresses of single NICs."""
        for network in self._desired.networks:
            reported = [(network.gateway, "the gateway"), *((dns, "a DNS server") for dns in network.dns)]
            for text, what in reported:
                if (address := _address(text or "")) is not None:
                    self._users.setdefault(address, f"{what} of {network.name}")
        for vm in vms:
            for nic in vm.nics:
                address = _stated(nic)
                if address is None:
                    continue
                other = self._users.setdefault(address, vm.name)
                if other != vm.name or [_stated(one) for one in vm.nics].count(address) > 1:
                    message = f"the plan file assigns address {address}, but it is {_of(other)}"
                    self._findings.refuse_vm(
                        Code.ADDRESS_TWICE, vm, message, "assign a different address to each NIC"
                    )

    def _take_observed(self, observed: Inventory) -> None:
        """Note the addresses that VMs keep and guests show, and VMkernel NICs of hosts that were read."""
        own = {vm.moid for vm in self._existing.values()}
        for vm in observed.vms:
            detail = vm.detail
            if detail is None or vm.is_template:
                continue
            kept = parse_addresses(detail.extra_config.get(ADDRESSES_KEY, ""))
            reported = [one.address for one in kept.values() if vm.moid not in own]
            reported += [
                text for nic in (detail.guest.nics if detail.guest else ()) for text in nic.addresses
            ]
            for text in reported:
                if (address := _address(text)) is not None:
                    self._seen.setdefault(address, {})[vm.name] = None
        for host in observed.hosts:
            facts = observed.facts.hosts.get(host.moid)
            for vmknic in facts.vmknics if facts is not None else ():
                if (address := _address(vmknic.address)) is not None:
                    self._seen.setdefault(address, {})[f"{vmknic.device} of {host.name}"] = None

    def _others(self, address: Address, vm: DesiredVm) -> list[str]:
        """Name the other holders that show an address."""
        return [name for name in self._seen.get(address, ()) if name != vm.name]

    def _assess_stated(self, vms: list[DesiredVm]) -> None:
        """Warn of stated addresses that others show; whether they fit, the plan file's checks say."""
        for vm in vms:
            for nic in vm.nics:
                if (address := _stated(nic)) is not None:
                    self._assess_use(vm, address)

    def _assess_use(self, vm: DesiredVm, address: Address) -> None:
        if others := self._others(address, vm):
            message = f"address {address} is already used by {listed(others, shown=_SHOWN)}"
            remedy = "assign a different address, or free this one"
            self._findings.add_vm(Code.ADDRESS_IN_USE, vm, message, remedy)

    # -------------------------------------------------------------- giving them

    def _pool_of(self, nic: DesiredNic) -> _AddressPool | None:
        """Return the pool of a NIC's network; that it has one, the plan file's own checks have seen to."""
        network = network_of(self._desired, nic)
        name = network.name if network is not None else nic.network or "no network"
        if name not in self._pools:
            self._pools[name] = _pool(network)
        return self._pools[name]

    def _keep(self, vm: DesiredVm, index: int, pool: _AddressPool) -> bool:
        """Let an existing VM keep its recorded addresses, else its guest's; return whether it has any."""
        own = self._existing.get(vm.name)
        if own is None or own.detail is None:
            return False
        kept = parse_addresses(own.detail.extra_config.get(ADDRESSES_KEY, ""))
        first = [kept[index].address] if index in kept else []
        texts = [*first, *(one.address for place, one in sorted(kept.items()) if place != index)]
        for text in texts:
            address = _address(text)
            if address is not None and address in pool.subnet and self._take(vm, index, pool, address):
                self._assess_use(vm, address)
                return True
        for nic in own.detail.guest.nics if own.detail.guest else ():
            for text in nic.addresses:
                address = _address(text)
                if address is None or not pool.has(address):
                    continue
                if not self._others(address, vm) and self._take(vm, index, pool, address):
                    return True
        return False

    def _take(self, vm: DesiredVm, index: int, pool: _AddressPool, address: Address) -> bool:
        if address in self._users:
            return False
        self._users[address] = vm.name
        self.given[vm.name, index] = pool.spelt(address)
        return True

    def _give(self, vm: DesiredVm, index: int, pool: _AddressPool) -> None:
        for address in pool.unasked:
            if not self._seen.get(address) and self._take(vm, index, pool, address):
                return
        pool.short.append(vm.name)

    def _report_short(self) -> None:
        for pool in self._pools.values():
            if pool is None or not pool.short:
                continue
            name = pool.network.name
            names = listed(dict.fromkeys(pool.short), shown=_SHOWN)
            given = (_address(text) for text in self.given.values())
            used = pool.size - sum(one is not None and pool.has(one) for one in given)
            message = (
                f"the pool {pool.text} of {name} is {_addresses(len(pool.short))} short for {names}: "
                f"{used} of {pool.size} are already in use"
            )
            remedy = "enlarge `pool`, or free addresses"
            if used:
                remedy = f"{remedy}; in use: {self._taken_text(pool)}"
            self._findings.add(Code.POOL_EXHAUSTED, Subject(kind="network", name=name), message, remedy)

    def _taken_text(self, pool: _AddressPool) -> str:
        given = {_address(text) for text in self.given.values()}
        taken = []
        for address in pool.addresses():
            if address in given:
                continue
            user = self._users.get(address) or next(iter(self._seen.get(address, ())), "")
            if user:
                taken.append(f"{address} ({user})")
        return listed(taken, shown=3)


def _pool(network: DesiredNetwork | None) -> _AddressPool | None:
    if network is None or network.pool is None:
        return None
    subnet = _subnet(network.subnet)
    first, last = (_address(text) for text in network.pool)
    if subnet is None or first is None or last is None or first.version != last.version:
        return None
    return _AddressPool(network, subnet, first, last)


def _subnet(text: str | None) -> Subnet | None:
    try:
        return ip_network(text, strict=False) if text else None
    except ValueError:
        return None


def _stated(nic: DesiredNic) -> Address | None:
    """Return the address that a plan file states for a NIC."""
    return _address(nic.ip) if nic.ip and "/" in nic.ip else None


def _address(text: str) -> Address | None:
    """Read an address, with or without a prefix length or a zone; None where it is none."""
    try:
        return ip_interface(text).ip if "/" in text else ip_address(text.partition("%")[0]) if text else None
    except ValueError:
        return None


def _addresses(count: int) -> str:
    return "one address" if count == 1 else f"{count} addresses"


def _of(user: str) -> str:
    return f"also the address of {user}" if user.startswith(("the ", "a ")) else f"also assigned to {user}"
