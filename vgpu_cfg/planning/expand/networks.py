"""Turn `networks` into one desired network for each name, and find conflicts of NIC addresses with them."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Loc, Part, build, did_you_mean
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork, DesiredVm
from vgpu_cfg.model.plan_file import NetworkEntry, NicEntry, SwitchEntry, VmKeys, parse_nic_address
from vgpu_cfg.model.ranges import SAMPLE_MEMBER, Member, read_members
from vgpu_cfg.planning.expand.merging import Layers, fill_part, first_of_each_place

_ESCAPED = frozenset("/\\%")
"""vCenter writes these in an entity's name as %2f, %5c and %25 (vSphere API, `ManagedEntity.name`)."""


@dataclass(slots=True)
class NetworkExpansion:
    """The networks in the order of the files, and the faults."""

    networks: list[DesiredNetwork] = field(default_factory=list)
    faults: list[DocumentFault] = field(default_factory=list)


def expand_networks(sections: Sequence[Part]) -> NetworkExpansion:
    """Write out the `networks` of every file, the weakest first; they only add up."""
    out = NetworkExpansion()
    for section in sections:
        if not isinstance(section.data, list):
            hint = "write each network as an item: - name: vm-network"
            out.faults.append(section.fault((), "'networks' must be a list", hint))
            continue
        for index, item in enumerate(section.data):
            part = section.child(index)
            data = {"name": item} if isinstance(item, str) else item
            _expand(Part(part.document, part.loc, data), out, is_mapping=isinstance(item, Mapping))
    return out


def _expand(part: Part, out: NetworkExpansion, *, is_mapping: bool) -> None:
    seen: set[tuple[str, int, int]] = set()
    members = _members(part, out, seen, is_mapping=is_mapping)
    for member in members or (SAMPLE_MEMBER,):
        filled, faults = fill_part(part, member)
        try:
            entry = build(part.document, NetworkEntry, loc=part.loc, data=filled.data)
        except DocumentError as error:
            faults = [*faults, *error.faults]
        else:
            faults = [*faults, *_unswitched(entry, part), *_escaped(entry, part), *_misplaced(entry, part)]
            if members and not faults:
                network = _network(entry, member, part.origin)
                faults = list(_clashes(network, out.networks, part))
                out.networks += [] if faults else [network]
        out.faults += first_of_each_place(faults, seen)


def _members(
    part: Part, out: NetworkExpansion, seen: set[tuple[str, int, int]], *, is_mapping: bool
) -> tuple[Member, ...]:
    """Read the names of a line; none if they are wrong, which is reported here unless the type is."""
    name: Any = part.data.get("name") if isinstance(part.data, Mapping) else None
    if not isinstance(name, str) or not name:
        return ()
    try:
        return read_members(name)
    except ValueError as error:
        fault = part.refused(("name",) if is_mapping else (), error)
        out.faults += first_of_each_place([fault], seen)
        return ()


def _unswitched(entry: NetworkEntry, part: Part) -> Iterator[DocumentFault]:
    if entry.physical and entry.switch:
        message = "a `physical` network is not a port group, but `switch` would create one"
        yield part.fault(("switch",), message, "remove one of them")
    if entry.switch or entry.physical:
        return
    for key in ("vlan", "mtu"):
        if key in entry.model_fields_set:
            message = f"`{key}` requires the port group's switch, but this network does not specify one"
            hint = (
                f"for an existing port group, remove `{key}`; to create one, add its distributed `switch`; "
                "for cabling only, add `physical: true`"
            )
            yield part.fault((key,), message, hint)


def _misplaced(entry: NetworkEntry, part: Part) -> Iterator[DocumentFault]:
    """Complain of a pool or a gateway that is not in the subnet, or of one in the other."""
    if not entry.subnet:
        for key in ("pool", "gateway"):
            if getattr(entry, key):
                hint = "example: subnet: 10.111.0.0/24"
                yield part.fault((key,), f"`{key}` requires `subnet`", hint)
        return
    subnet = ipaddress.IPv4Network(entry.subnet)
    for key, addresses in (("pool", entry.pool), ("gateway", (entry.gateway,) if entry.gateway else ())):
        for address in addresses or ():
            ip = ipaddress.IPv4Address(address)
            if ip not in subnet:
                hint = f"from {subnet[1]} to {subnet[-2]}"
                yield part.fault((key,), f"{address} is outside the subnet {subnet}", hint)
                break
            if ip in (subnet.network_address, subnet.broadcast_address):
                hint = f"from {subnet[1]} to {subnet[-2]}"
                yield part.fault((key,), f"{address} is the network or broadcast address of the subnet", hint)
                break
    if entry.gateway and in_pool(ipaddress.IPv4Address(entry.gateway), entry.pool):
        message = f"the gateway {entry.gateway} is in the pool, so it would be assigned to a VM"
        yield part.fault(("pool",), message, "exclude it from the pool")


def _escaped(entry: NetworkEntry, part: Part) -> Iterator[DocumentFault]:
    """Refuse names that are to be made and that vCenter would write another way (%2f, %5c, %25)."""
    named: list[tuple[tuple[str, ...], str]] = [(("name",), entry.name)] if entry.switch else []
    if isinstance(entry.switch, SwitchEntry) and entry.switch.make:
        named.append((("switch", "name"), entry.switch.name))
    for loc, name in named:
        for sign in sorted(_ESCAPED.intersection(name)):
            message = f"the name {name!r} contains {sign!r}, which vCenter stores in a different form"
            yield part.fault(loc, message, "use a name without /, \\ or %")


def _network(entry: NetworkEntry, member: Member, origin: str) -> DesiredNetwork:
    switch = entry.switch
    return DesiredNetwork(
        name=member.name,
        switch=switch.name if isinstance(switch, SwitchEntry) else switch,
        make_switch=isinstance(switch, SwitchEntry) and bool(switch.make),
        vlan=entry.vlan,
        mtu=entry.mtu,
        is_physical=bool(entry.physical),
        subnet=entry.subnet,
        pool=entry.pool,
        gateway=entry.gateway,
        dns=entry.dns or (),
        origin=origin,
    )


def _clashes(
    network: DesiredNetwork, others: Sequence[DesiredNetwork], part: Part
) -> Iterator[DocumentFault]:
    if any(other.name == network.name for other in others):
        yield part.fault((), f"the network {network.name!r} is listed twice", "remove one")
    for other in others:
        if network.pool and other.pool and _overlap(network.pool, other.pool):
            message = f"the pools of {network.name!r} and {other.name!r} overlap"
            yield part.fault(("pool",), message, "use different addresses for each network")
            return
    for other in others:
        is_same_switch = network.switch is not None and network.switch == other.switch
        if is_same_switch and network.mtu and other.mtu and network.mtu != other.mtu:
            message = f"{other.name!r} sets the mtu of the switch {network.switch!r} to {other.mtu}"
            yield part.fault(("mtu",), message, f"set {other.mtu}; a switch can have only one MTU")
            return


def _overlap(pool: tuple[str, str], other: tuple[str, str]) -> bool:
    first, last, other_first, other_last = (ipaddress.IPv4Address(one) for one in (*pool, *other))
    return first <= other_last and other_first <= last


Networks = Mapping[str, DesiredNetwork]


def counted(text: str | None, k: int) -> str | None:
    """Put a device's number into a text."""
    return text.replace("{k}", str(k)) if text else None


def check_nic_networks(keys: VmKeys, layers: Layers, networks: Networks | None) -> Iterator[DocumentFault]:
    """Yield where a NIC asks of its network what that has not, or has an address that cannot be there."""
    gateways: list[str] = []
    for index, nic in enumerate(keys.nics or ()):
        if nic.rdma == "gpudirect" and "rdma" in nic.model_fields_set and not keys.gpus:
            message = "`rdma: gpudirect` requires `gpus` in the VM"
            yield layers.fault(("nics", index, "rdma"), message, "set rdma: host")
        for k in range(1, (nic.count or 1) + 1):
            found = list(_check_one(nic, index, k, layers, networks))
            network = (networks or {}).get(counted(nic.network, k) or "")
            if not found and network is not None and network.gateway and nic.ip not in (None, "dhcp"):
                gateways.append(network.name)
                if len(gateways) > 1:
                    both = f"the networks {gateways[0]!r} and {network.name!r} both have a `gateway`"
                    same = f"the VM has two addresses on {network.name!r}, which has a `gateway`"
                    message = same if gateways[0] == network.name else both
                    hint = "a guest has one default route; use a network without a gateway"
                    found = [layers.fault(("nics", index, "ip"), message, hint)]
            yield from found
            if found:
                break


def _check_one(
    nic: NicEntry, index: int, k: int, layers: Layers, networks: Networks | None
) -> Iterator[DocumentFault]:
    loc: Loc = ("nics", index)
    try:
        address = parse_nic_address(counted(nic.ip, k) or "")
    except ValueError:
        message = f"with {{k}} = {k}, {nic.ip} is not a valid address"
        yield layers.fault((*loc, "ip"), message, "list each NIC separately")
        return
    if networks is None:
        return
    name = counted(nic.network, k) or ""
    network = networks.get(name)
    if network is not None and network.is_physical and nic.kind != "passthrough":
        message = (
            f"{name!r} describes cabling only (`physical`), but a NIC of type {nic.kind} requires a port "
            "group"
        )
        yield layers.fault((*loc, "network"), message, "set type: passthrough, or use another network")
    if address == "pool":
        if network is None:
            hint = (
                did_you_mean(name, networks)
                or f"add {{name: {name}, subnet: SUBNET, pool: POOL}} to `networks`"
            )
            message = f"`networks` has no entry named {name!r}, so there is no pool"
            yield layers.fault((*loc, "ip"), message, hint)
        elif network.pool is None:
            hint = "add `subnet` and `pool` to the network, or use dhcp or a fixed address"
            yield layers.fault((*loc, "ip"), f"the network {name!r} has no pool", hint)
    elif address not in (None, "dhcp") and network is not None:
        for message, hint in _outside(ipaddress.IPv4Interface(str(address)), network):
            yield layers.fault((*loc, "ip"), message, hint)


def _outside(address: ipaddress.IPv4Interface, network: DesiredNetwork) -> Iterator[tuple[str, str]]:
    if network.subnet is None:
        return
    subnet = ipaddress.IPv4Network(network.subnet)
    if address.ip not in subnet:
        message = f"{address.ip} is outside {subnet}, the subnet of {network.name!r}"
        yield (
            message,
            f"example: {subnet[10]}/{subnet.prefixlen}" if subnet.num_addresses > 16 else "correct it",
        )
    elif address.network != subnet:
        message = f"the prefix of {address} does not match {network.name!r}, which uses {subnet}"
        yield message, f"set {address.ip}/{subnet.prefixlen}"
    elif str(address.ip) == network.gateway:
        yield f"{address.ip} is the gateway of {network.name!r}", "assign another address to the NIC"
    elif in_pool(address.ip, network.pool):
        message = (
            f"{address.ip} is in the pool of {network.name!r}, where addresses are assigned automatically"
        )
        yield message, "set ip: pool, or an address outside the pool"


def in_pool(address: ipaddress.IPv4Address, pool: tuple[str, str] | None) -> bool:
    """Whether a pool gives the address away."""
    return pool is not None and ipaddress.IPv4Address(pool[0]) <= address <= ipaddress.IPv4Address(pool[1])


def check_same_addresses(vms: Iterable[DesiredVm], places: Mapping[str, Part]) -> Iterator[DocumentFault]:
    """Complain of an address that two NICs of the plan have on one network."""
    owners: dict[tuple[str | None, str], str] = {}
    for vm in vms:
        for nic in vm.nics:
            if nic.ip in (None, "dhcp", "pool"):
                continue
            ip = str(nic.ip).partition("/")[0]
            owner = owners.setdefault((nic.network, ip), vm.name)
            if (
                owner != vm.name
                or [one.ip for one in vm.nics if one.network == nic.network].count(nic.ip) > 1
            ):
                message = f"the address {ip} of {vm.name!r} is also used by {owner!r}"
                hint = "assign a different address to each NIC (use {n}, {i} or {k}), or set ip: pool"
                yield places[vm.name.casefold()].fault(("nics",), message, hint)
                break


def check_host_names(vms: Iterable[DesiredVm], places: Mapping[str, Part]) -> Iterator[DocumentFault]:
    """Complain of guests without a host name, and of two with the same one."""
    owners: dict[str, str] = {}
    for vm in vms:
        if vm.guest is None:
            continue
        part = places[vm.name.casefold()]
        name = vm.guest.host_name
        if not name:
            hint = "set guest: {hostname: NAME}, using only letters, digits and '-'"
            yield part.fault((), f"the name {vm.name!r} cannot be used as a host name", hint)
            continue
        owner = owners.setdefault(name.casefold(), vm.name)
        if owner != vm.name:
            message = f"the host name {name!r} of {vm.name!r} is also used by {owner!r}"
            hint = "set another `hostname` under `guest`; {n} and {i} are replaced by numbers"
            yield part.fault(("guest", "hostname"), message, hint)
