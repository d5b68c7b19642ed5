"""Turn `networks` into one desired network for each name: ranges written out, each switch once."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import Part, build
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork
from vgpu_cfg.model.plan_file import NetworkEntry, SwitchEntry
from vgpu_cfg.model.ranges import SAMPLE_MEMBER, Member, read_members
from vgpu_cfg.planning.expand.addresses import in_pool
from vgpu_cfg.planning.expand.merging import fill_part, first_of_each_place

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
            hint = "add `switch`, or `physical: true` for cabling only, or remove it"
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
