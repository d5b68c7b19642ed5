"""Addresses of the NICs of a plan's VMs in their guests, and how a guest finds each NIC: by driver or by MAC.

A NIC with `ip: pool` keeps the address that is kept on its VM (`vgpu_cfg.addresses`); new ones get the lowest
free one of the pool, in the order of the VMs. So a worker that is added or removed changes no other's
address. An address is in use if it is stated (for another NIC of the plan, a gateway, a name server), if a VM
keeps it or its guest shows it, or if a VMkernel NIC has it. Devices on the wire that are no VMs of this
vCenter are unknown here: pools are the plan's own.

A guest finds a NIC by its driver if the VM has no other of that driver, else by its MAC: this does not depend
on whether the VM exists already, and so a second run finds the same. Several virtual NICs of one driver get
fixed MACs of VMware's range for those (00:50:56:00:00:00 to 00:50:56:3f:ff:ff), derived from plan, VM and
place, so that they are known beforehand. A passthrough NIC has its own, which the host reports until it has
handed it out: from then on it is kept on the VM (`model.guests.base`).

Belief: running-vm-takes-extra-config.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_interface, ip_network
from typing import Literal

from vgpu_cfg.catalog.nic import MELLANOX
from vgpu_cfg.changes.values import Placement, Subject
from vgpu_cfg.model.desired import DesiredNetwork, DesiredNic, DesiredPlan, DesiredVm, mtu_of, network_of
from vgpu_cfg.model.guests.base import ADDRESSES_KEY, KeptAddress, parse_addresses, print_addresses
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import VirtualNic, Vm
from vgpu_cfg.model.wording import as_counted, listed
from vgpu_cfg.planning.estate.devices import recorded_others
from vgpu_cfg.planning.estate.ownership import is_marked
from vgpu_cfg.planning.estate.site import find_named
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
                    message = f"the plan file assigns address {address}, which is {_of(other)}"
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
                f"the pool {pool.text} on {name} is {_addresses(len(pool.short))} short for {names}: "
                f"{used} of {pool.size} in use"
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


VMXNET3 = "vmxnet3"
"""The guest's driver of a vmxnet3 NIC, and of the Ethernet half of a paravirtual RDMA one."""
MLX5 = "mlx5_core"
"""The guest's driver of ConnectX NICs and of their virtual functions."""

_FIXED_MACS = 0x400000

NicType = Literal["vmxnet3", "pvrdma", "sriov", "passthrough"]
Identity = tuple[str, str]
"""MAC and driver; the guest takes the MAC where there is one."""


class NicIdentities:
    """The identity of each NIC of a plan's VMs in its guest."""

    def __init__(
        self, desired: DesiredPlan, observed: Inventory, existing: Mapping[str, Vm], findings: Findings
    ) -> None:
        self._desired, self._observed = desired, observed
        self._existing, self._findings = existing, findings
        self.default_macs: dict[tuple[str, int], str] = {}
        self._make_default_macs()

    def of(self, vm: DesiredVm, host_moid: str | None, functions: tuple[str, ...]) -> tuple[Identity, ...]:
        """Return the identity of each NIC; ("", "") if it cannot be distinguished from another one."""
        host = self._observed.host_by_moid.get(host_moid or "")
        addresses = _functions(vm, functions)
        drivers = [_driver(nic, addresses.get(index), host) for index, nic in enumerate(vm.nics)]
        count = Counter(drivers)
        own = self._own_nics(vm)
        kept = self._kept_macs(vm)
        found: list[Identity] = []
        for index, nic in enumerate(vm.nics):
            driver = drivers[index]
            if nic.mac is not None:
                found.append((nic.mac, driver))
            elif driver and count[driver] == 1:
                found.append(("", driver))
            elif nic.function is not None and nic.function.kind == "passthrough":
                # Which one a label brings, nobody knows before the VM runs.
                is_named = nic.function.pin is not None or nic.function.label is None
                mac = (_mac_of(host, addresses.get(index)) if is_named else "") or kept.get(index, "")
                found.append((mac, driver if mac else ""))
            elif index in own and own[index].mac:
                found.append((own[index].mac.casefold(), driver))
            else:
                found.append((self.default_macs.get((vm.name, index), ""), driver))
        self._assess(vm, found)
        return tuple(found)

    def _assess(self, vm: DesiredVm, found: list[Identity]) -> None:
        """Report a guest that is to be set up and cannot distinguish its NICs."""
        alike = [index for index, one in enumerate(found) if one == ("", "")]
        if vm.guest is None or not vm.guest.is_staged or not alike:
            return
        numbers = " and ".join(str(index + 1) for index in alike)
        what = (
            f"NIC {numbers} from its other NICs" if len(alike) == 1 else f"its NICs {numbers} from each other"
        )
        message = (
            f"the guest cannot distinguish {what}: they use the same driver and their MAC addresses are "
            "unknown"
        )
        remedy = (
            "set `mac` for each NIC: read it from the card's label, or run `ip link` in a guest "
            "that uses the NIC"
        )
        self._findings.refuse_vm(Code.NICS_ALIKE, vm, message, remedy)

    # -------------------------------------------------------- virtual NICs' MACs

    def _make_default_macs(self) -> None:
        """Give every virtual NIC that needs one an unused MAC of its own."""
        taken = {nic.mac for vm in self._desired.vms for nic in vm.nics if nic.mac is not None}
        wanting = [
            (vm, index)
            for vm in sorted(self._desired.vms, key=lambda vm: vm.name)
            for index, nic in enumerate(vm.nics)
            if nic.mac is None and _is_virtual(nic) and _has_like(vm, nic)
        ]
        if not wanting:
            return
        own = {vm.moid for vm in self._existing.values()}
        taken |= {
            nic.mac.casefold()
            for vm in self._observed.vms
            if vm.detail is not None and vm.moid not in own
            for nic in vm.detail.nics
        }
        for vm, index in wanting:
            number = _number(self._desired.name, vm.name, index)
            while (mac := _fixed_mac(number)) in taken:
                number = (number + 1) % _FIXED_MACS
            taken.add(mac)
            self.default_macs[vm.name, index] = mac

    def _own_nics(self, vm: DesiredVm) -> dict[int, VirtualNic]:
        """Match a VM's virtual NICs with those that it has: by network first, then in their order.

        Those that are not the plan's come last, and by network only: the plan file takes them over.
        """
        own = self._existing.get(vm.name)
        if own is None or own.detail is None:
            return {}
        others = {one.key for one in recorded_others(own)}
        left = [nic for nic in own.detail.nics if nic.key not in others]
        foreign = [nic for nic in own.detail.nics if nic.key in others]
        found: dict[int, VirtualNic] = {}
        virtual = [(index, nic) for index, nic in enumerate(vm.nics) if _is_virtual(nic)]
        for needs_network, among in ((True, left), (False, left), (True, foreign)):
            for index, nic in virtual:
                if index in found:
                    continue
                keys = self._keys_of(nic)
                match = next(
                    (
                        one
                        for one in among
                        if one.kind.casefold() == type_of(nic) and (one.network in keys or not needs_network)
                    ),
                    None,
                )
                if match is not None:
                    among.remove(match)
                    found[index] = match
        return found

    def _keys_of(self, nic: DesiredNic) -> set[str]:
        found = find_named(nic.network, self._observed.networks) if nic.network else []
        return {one.portgroup_key or one.moid for one in found}

    def _kept_macs(self, vm: DesiredVm) -> dict[int, str]:
        own = self._existing.get(vm.name)
        if own is None or own.detail is None:
            return {}
        kept = parse_addresses(own.detail.extra_config.get(ADDRESSES_KEY, ""))
        return {index: one.mac for index, one in kept.items() if one.mac}


def _functions(vm: DesiredVm, functions: tuple[str, ...]) -> dict[int, str]:
    """Return the PCI addresses behind NICs by their place; those that are named need no placement."""
    places = [index for index, nic in enumerate(vm.nics) if nic.function is not None]
    if len(functions) == len(places):
        return dict(zip(places, functions, strict=True))
    pins = ((index, vm.nics[index].function) for index in places)
    return {index: function.pin for index, function in pins if function is not None and function.pin}


def _driver(nic: DesiredNic, pci_id: str | None, host: Host | None) -> str:
    """Return the guest's driver; an unknown function is assumed to be a ConnectX."""
    if nic.function is None:
        return VMXNET3
    pci = host.device(pci_id) if host is not None and pci_id is not None else None
    if pci is None and host is not None:
        pci = next((one.pci for one in host.nics if one.pci_id == pci_id), None)
    return MLX5 if pci is None or pci.vendor_id == MELLANOX else ""


def _mac_of(host: Host | None, pci_id: str | None) -> str:
    """Return the MAC that the host reports for its NIC at an address, "" if it lists none."""
    if host is None or pci_id is None:
        return ""
    return next((nic.mac.casefold() for nic in host.nics if nic.pci_id == pci_id), "")


def _is_virtual(nic: DesiredNic) -> bool:
    """Whether vSphere gives the NIC its MAC."""
    return nic.function is None or nic.function.kind == "sriov"


def _has_like(vm: DesiredVm, nic: DesiredNic) -> bool:
    """Whether the VM has another NIC that may have the same driver."""
    return sum((other.function is None) == (nic.function is None) for other in vm.nics) > 1


def type_of(nic: DesiredNic) -> NicType:
    """Return the plan file's name for the type of a NIC."""
    if nic.function is not None:
        return nic.function.kind
    return "pvrdma" if nic.is_pvrdma else "vmxnet3"


def _number(plan: str, vm: str, index: int) -> int:
    digest = hashlib.sha256("\0".join((plan, vm, str(index))).encode()).digest()
    return int.from_bytes(digest[:4]) % _FIXED_MACS


def _fixed_mac(number: int) -> str:
    return f"00:50:56:{number >> 16:02x}:{number >> 8 & 0xFF:02x}:{number & 0xFF:02x}"


@dataclass(frozen=True, slots=True)
class NicAddress:
    """The wanted settings of one NIC in its guest, in the order of the plan file.

    `network` is the name in the plan file, "" for none. The guest finds the NIC by `mac`, or by its `driver`
    if `mac` is empty; both are empty if it cannot be distinguished from another one. `addresses` are CIDR,
    `gateway` and `dns` those of its network, if its address is not from DHCP. `is_stated` is False if the
    plan file has no address for it: then the guest's own settings stay.
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
        """Return the fixed MACs of new virtual NICs, which let their guests distinguish them.

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
        """Return the record kept on the VM (`ADDRESSES_KEY`); "" if its pools gave it nothing."""
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
