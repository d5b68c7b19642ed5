"""Conflicts of NIC addresses with their networks, and with each other."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator, Mapping

from vgpu_cfg.documents import Loc, Part, did_you_mean
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.desired import DesiredNetwork, DesiredVm
from vgpu_cfg.model.plan_file import NicEntry, VmKeys, parse_nic_address
from vgpu_cfg.planning.expand.merging import Layers

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
            hint = "add `subnet` and `pool` to it, or use dhcp or a fixed address"
            yield layers.fault((*loc, "ip"), f"the network {name!r} has no pool", hint)
    elif address not in (None, "dhcp") and network is not None:
        for message, hint in _misplaced(ipaddress.IPv4Interface(str(address)), network):
            yield layers.fault((*loc, "ip"), message, hint)


def _misplaced(address: ipaddress.IPv4Interface, network: DesiredNetwork) -> Iterator[tuple[str, str]]:
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
            hint = "set guest: {hostname: NAME}, with letters, digits and '-'"
            yield part.fault((), f"the name {vm.name!r} cannot be used as a host name", hint)
            continue
        owner = owners.setdefault(name.casefold(), vm.name)
        if owner != vm.name:
            message = f"the host name {name!r} of {vm.name!r} is also used by {owner!r}"
            hint = "set another `hostname` under `guest`; {n} and {i} are replaced by numbers"
            yield part.fault(("guest", "hostname"), message, hint)
