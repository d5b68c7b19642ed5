"""Checks of VMs against each other: mixtures that slow training down, MAC addresses and GPUs that two have.

vSphere accepts all of these. NICs with the same MAC address lose packets, and a GPU serves one running VM.

Sources: the kernel's ip-sysctl (arp_ignore, arp_announce, rp_filter); netplan's documentation on routes; NCCL
issues 1581, 1269 and 1109, UCX issue 5598 (NICs in one subnet).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_interface, ip_network
from itertools import combinations

from vgpu_cfg.catalog import Board
from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.changes.values import Placement, Subject
from vgpu_cfg.model.desired import ORDINARY_MTU, DesiredNic, DesiredPlan, DesiredVm, mtu_of, network_of
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.addresses import NicAddress
from vgpu_cfg.planning.capacity.host_capacity import unlike
from vgpu_cfg.planning.estate.site import find_named
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

_SLOWEST = "every training step waits for the slowest"
_ONE_INSTANCE = "use one vGPU per VM: a larger profile, or more VMs"


def check_mixtures(
    desired: DesiredPlan,
    observed: Inventory,
    resolved_vms: Sequence[ResolvedVm],
    hosts: Sequence[HostState],
    placements: Sequence[Placement],
    addresses: Mapping[str, Sequence[NicAddress]],
    findings: Findings,
) -> None:
    """Report what differs within a VM, among the workers, and along a network."""
    places = {one.vm: one for one in placements}
    known: dict[Code, dict[str, str]] = {Code.BOARDS_MIXED: {}, Code.SPEEDS_DIFFER: {}}
    known[Code.MTUS_DIFFER] = {vm.name: _rdma_mtus(desired, vm.nics) for vm in desired.vms}
    alike: dict[tuple[DeviceEntry, ...], dict[str, list[DesiredVm]]] = {}
    team = desired.training.workers if desired.training is not None else ()
    for resolved in resolved_vms:
        vm, fit, place = resolved.desired, resolved.fit, places.get(resolved.name)
        for message in _of_one_subnet(desired, vm.nics, addresses.get(vm.name, ())):
            findings.add_vm(Code.NICS_IN_ONE_SUBNET, vm, message, _OWN_SUBNETS)
        if fit is None or place is None or resolved.shape is None:
            continue
        if vm.name in team and (instances := sum(need.mig_size > 0 for need in fit.variant)) > 1:
            message = f"it has {instances} MIG-backed vGPUs, but a CUDA program can use only one of them"
            findings.add_vm(Code.MIG_SEEN_ALONE, vm, message, _ONE_INSTANCE)
        gpus, slots = hosts[fit.host].gpus, hosts[fit.host].slots
        passed = [one for one in slots if one.pci.pci_id in fit.slots]
        boards = known[Code.BOARDS_MIXED][vm.name] = _AND.join(
            sorted(
                {_board(one.board, one.pci.device_name) for one in passed}
                | {_board(gpus[index].board, gpus[index].board_key or "") for index in fit.gpus}
            )
        )
        if unlike(passed, resolved.shape.dynamic, fit.slots) and _AND in boards:
            message = f"its GPUs are {boards} because one name matches different boards, so {_SLOWEST}"
            findings.add_vm(Code.BOARDS_MIXED, vm, message, _ONE_BOARD)
        elif resolved.shape.dynamic and vm.name not in team:
            alike.setdefault(resolved.shape.dynamic, {}).setdefault(boards, []).append(vm)
        host = observed.host_by_moid[place.host_moid]
        speeds = known[Code.SPEEDS_DIFFER][vm.name] = _speeds(vm.nics, place.nic_pci_ids, host, observed)
        if _AND in speeds:
            message = f"its RDMA NICs have different speeds ({speeds}), so NCCL may not use the slower NICs"
            findings.add_vm(
                Code.SPEEDS_DIFFER, vm, message, "use `label` or `pin` to select NICs with the same speed"
            )
    _check_boards_of_vms(alike.values(), findings)
    for code, by_vm in known.items():
        workers: dict[str, list[str]] = {}
        for name in team:
            workers.setdefault(by_vm.get(name, ""), []).append(name)
        if len(workers) > 1 and "" not in workers:
            which = "; ".join(f"{fold_names(names)}: {text}" for text, names in workers.items())
            what, effect, remedy = _UNEQUAL[code]
            message = f"the workers' {what} ({which}): {effect}"
            findings.add(code, Subject(kind="plan", name=desired.name), message, remedy)
    _check_mtus(desired, observed, places.values(), findings)


_ALIKE = "place them on identical hosts: see `place.hosts`"
_ONE_BOARD = "select one board with `device_id`, or free more GPUs on one board"


def _check_boards_of_vms(requests: Iterable[Mapping[str, list[DesiredVm]]], findings: Findings) -> None:
    """Report VMs that ask for the same device and get different boards, by their boards."""
    for by_board in requests:
        if len(by_board) < 2:
            continue
        which = "; ".join(f"{fold_names([vm.name for vm in vms])}: {text}" for text, vms in by_board.items())
        for vm in (vm for vms in by_board.values() for vm in vms):
            findings.add_vm(Code.BOARDS_MIXED, vm, f"one name matches different boards ({which})", _ONE_BOARD)


_UNEQUAL = {
    Code.BOARDS_MIXED: ("GPUs are different models", _SLOWEST, _ALIKE),
    Code.SPEEDS_DIFFER: ("NICs have different speeds", _SLOWEST, _ALIKE),
    Code.MTUS_DIFFER: (
        "RDMA NICs have different MTUs",
        "NCCL 2.20 and later does not use the smaller MTU and fails",
        "set the same `mtu` for their networks",
    ),
}
"""Differences among the workers, with effect and remedy. The effect of MTUs: NVIDIA/nccl, issue 1524."""


def _rdma_mtus(desired: DesiredPlan, nics: Sequence[DesiredNic]) -> str:
    found = {mtu_of(nic, network_of(desired, nic)) for nic in nics if nic.rdma is not None} - {None}
    return ", ".join(map(str, sorted(filter(None, found))))


_AND = " and "


def _board(board: Board | None, name: str) -> str:
    return f"{board.name} ({board.framebuffer_mib // 1024} GB)" if board is not None else name


def _speeds(nics: Sequence[DesiredNic], functions: Sequence[str], host: Host, observed: Inventory) -> str:
    """Spell the speeds of a VM's RDMA NICs, else of its fastest uplink; "" where one is unknown.

    A NIC that is passed through has no link for the host: then that of most cards of its model counts.
    """
    links = {one.pci_id: (one.speed_mbps or 0) // 1000 for one in host.nics}
    for pci in host.pci_devices:
        model = load_nics().by_pci(pci.vendor_id, pci.device_id)
        links[pci.pci_id] = links.get(pci.pci_id) or (model.line_gbps or 0 if model is not None else 0)
    own = zip((nic for nic in nics if nic.function is not None), functions, strict=False)
    found = {links.get(pci_id, 0) for nic, pci_id in own if nic.rdma is not None}
    if not found:
        uplinks = _uplinks(nics, host, observed)
        seen = {links[one.pci_id] for one in host.nics if uplinks is None or one.device in uplinks} - {0}
        found = {max(seen, default=0)} if uplinks is not None or len(seen) == 1 else {0}
    return "" if 0 in found else _AND.join(f"{one} Gb/s" for one in sorted(found))


def _uplinks(nics: Sequence[DesiredNic], host: Host, observed: Inventory) -> set[str] | None:
    """Return the uplinks of the switches that a VM's NICs are on, None where the switches were not read."""
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or not facts.switches:
        return None
    networks = [one for nic in nics if nic.network for one in find_named(nic.network, observed.networks)]
    uuids = {one.switch_uuid for one in networks if one.moid in host.network_moids}
    if sum(one.switch_uuid is None for one in facts.switches) > 1:
        uuids.discard(None)
    return {vmnic for one in facts.switches if one.switch_uuid in uuids for vmnic in one.uplinks}


_OWN_SUBNETS = (
    "give each NIC its own subnet; otherwise set arp_ignore, arp_announce, rp_filter, and source routes "
    "in the guest"
)
_WHY = "Linux may answer and send through either NIC, and NCCL may use the wrong one"


def _of_one_subnet(
    desired: DesiredPlan, nics: Sequence[DesiredNic], addresses: Sequence[NicAddress]
) -> Iterator[str]:
    """Yield a message for each two networks, or each network, by which two NICs are in one subnet."""
    known = [
        (nic.network or "", guest.dhcp, _subnets(desired, nic, guest))
        for nic, guest in zip(nics, addresses, strict=False)
        if guest.is_stated
    ]
    told: set[frozenset[str]] = set()
    for (first, by_dhcp, own), (second, also, other) in combinations(known, 2):
        common = next((str(one) for one in own for two in other if one.overlaps(two)), "")
        pair = frozenset((first, second))
        if pair in told or not (common or (first and pair == {first} and by_dhcp and also)):
            continue
        told.add(pair)
        what = f"{first} and {second} are in the same subnet, {common}"
        if first == second:
            how = (
                "DHCP, which adds a default route for each" if by_dhcp and also else "addresses in one subnet"
            )
            what = f"several of its NICs are on {first}, with {how}"
        yield f"{what}: {_WHY}"


def _subnets(desired: DesiredPlan, nic: DesiredNic, guest: NicAddress) -> list[IPv4Network | IPv6Network]:
    network = network_of(desired, nic)
    stated = [ip_network(network.subnet)] if network is not None and network.subnet else []
    return [ip_interface(one).network for one in guest.addresses] or stated


def _check_mtus(
    desired: DesiredPlan, observed: Inventory, places: Iterable[Placement], findings: Findings
) -> None:
    """Compare the MTUs of guests and VMkernel NICs on each network; networks of one subnet are one.

    A virtual NIC without a stated MTU has 1500, which counts only if other guests there have more.
    """
    paths = {one.name.casefold(): one.subnet or one.name for one in desired.networks}
    ends: dict[str, dict[int, set[str]]] = {}
    plain: list[tuple[str, str]] = []
    for vm in desired.vms:
        for nic in vm.nics:
            network = network_of(desired, nic)
            name = network.name if network is not None else nic.network or ""
            path, mtu = paths.get(name.casefold(), name), mtu_of(nic, network)
            if mtu is not None:
                ends.setdefault(path, {}).setdefault(mtu, set()).add(vm.name)
            elif nic.ip is not None and nic.function is None:
                plain.append((path, vm.name))
    for path, name in plain:
        if max(ends.get(path, ()), default=0) > ORDINARY_MTU:
            ends[path].setdefault(ORDINARY_MTU, set()).add(name)
    stated = {one.network.casefold(): one.mtu for entry in desired.hosts for one in entry.vmknics if one.mtu}
    kernel = [(name, mtu, "VMkernel NICs") for name, mtu in stated.items()]
    for host in map(observed.host_by_moid.__getitem__, sorted({one.host_moid for one in places})):
        seen = observed.facts.hosts[host.moid].vmknics if host.moid in observed.facts.hosts else ()
        left = (one for one in seen if one.network.casefold() not in stated)
        kernel += [(one.network.casefold(), one.mtu, f"{one.device} of {host.name}") for one in left]
    for name, mtu, device in kernel:
        if (path := paths.get(name, name)) in ends:
            ends[path].setdefault(mtu, set()).add(device)
    for path, found in ends.items():
        if path and len(found) > 1:
            which = "; ".join(f"{mtu}: {fold_names(sorted(some))}" for mtu, some in sorted(found.items()))
            message = f"NICs on it have different MTUs ({which}): larger packets are silently dropped"
            remedy = "set the same `mtu` for the network and for `vmknics` on it"
            findings.add(Code.MTUS_DIFFER, Subject(kind="network", name=path), message, remedy)


def check_twins(
    observed: Inventory,
    resolved_vms: Sequence[ResolvedVm],
    deleted: Sequence[Vm],
    places: Mapping[str, Placement],
    findings: Findings,
) -> None:
    """Report MAC addresses of running VMs, and GPUs that powered-off VMs have, too."""
    own = {one.existing.moid for one in resolved_vms if one.existing is not None}
    own |= {vm.moid for vm in deleted}
    others = [
        (vm, vm.detail)
        for vm in observed.vms
        if vm.moid not in own and vm.detail is not None and not vm.is_template
    ]
    macs = {nic.mac.lower(): vm for vm, detail in others if vm.is_on for nic in detail.nics if nic.mac}
    pins = {(vm.host_moid, one.pci_id): vm for vm, detail in others for one in detail.passthrough}
    for resolved in resolved_vms:
        vm, place = resolved.desired, places.get(resolved.name)
        for nic in vm.nics:
            twin = macs.get(nic.mac) if nic.mac and nic.function is None else None
            if twin is not None:
                message = f"{twin.name}, which is running, also has the MAC address {nic.mac}"
                findings.refuse_vm(Code.MAC_TAKEN, vm, message, "use another `mac`, or omit it")
        for pin in dict.fromkeys(gpu.pin for gpu in vm.gpus if gpu.pin):
            twin = pins.get((place.host_moid, pin)) if place is not None else None
            if twin is not None and not twin.is_on:
                message = f"{twin.name}, which is off, also has {pin}; only one of these VMs can run"
                remedy = f"remove the GPU from {twin.name}, or pin another GPU"
                findings.add_vm(Code.PIN_SHARED, vm, message, remedy)
