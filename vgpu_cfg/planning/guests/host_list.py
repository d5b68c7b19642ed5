"""The list of hosts for other tools, and the address of each.

If the plan defines a training, these are its VMs; else every VM of the plan that has GPUs. An address in the
plan goes before one that a guest shows: the latter is known only while its tools run.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Literal

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan, DesiredVm
from vgpu_cfg.model.host_list import HostList, ListedHost, ListedHostGpu
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import GuestSeen, Vm
from vgpu_cfg.model.plan_file import check_domain, check_host_name, host_name_of
from vgpu_cfg.planning.addresses import AddressBook, NicAddress, own_vms
from vgpu_cfg.planning.estate.down_hosts import lost_host
from vgpu_cfg.planning.expand.guests import MACHINE_USER
from vgpu_cfg.planning.guests.peers import make_team

_FILE = "file"


def make_host_list(desired: DesiredPlan, observed: Inventory, catalog: Catalog) -> HostList:
    """List the hosts of a plan as they are, and as the plan file wants those that are not there yet."""
    addresses = AddressBook(desired, observed).nics_of_all()
    existing = own_vms(desired, observed)
    team = make_team(desired, addresses)
    peers = {one.vm.name: one for one in team.everyone} if team is not None else {}

    def host(vm: DesiredVm, *, slots: int) -> ListedHost:
        seen = _seen(existing.get(vm.name))
        guest = vm.guest or _guest_as_seen(vm, seen)
        peer = peers.get(vm.name)
        # Where the plan knows no address on the network of the training, it is the one where all meet.
        training = peer.training_address or peer.address if peer is not None else ""
        there = existing.get(vm.name)
        host_there = observed.host_by_moid.get(there.host_moid or "") if there is not None else None
        return ListedHost(
            vm=vm.name,
            host_name=guest.host_name,
            domain=guest.domain,
            address=_management(addresses[vm.name], seen, training),
            training_address=training,
            slots=slots,
            gpus=tuple(_gpus(vm, there, catalog)),
            cpus=vm.cpus or _of(there, "cpus"),
            cores_per_socket=_of(there, "cores_per_socket"),
            memory_mib=vm.memory_mib or _of(there, "memory_mib"),
            exists=there is not None,
            esxi_host=host_there.name if host_there is not None else "",
            cluster=_cluster(vm, host_there, observed),
            has_rdma=any(nic.rdma is not None for nic in vm.nics),
            driver_in_guest=vm.guest is None or bool(guest.driver or guest.licence),
            user=guest.login.user or MACHINE_USER,
            port=guest.login.port,
            key_file=_key_file(desired, guest),
        )

    by_name = {vm.name: vm for vm in desired.vms}
    training = desired.training
    if team is None or training is None:
        workers = tuple(host(vm, slots=len(vm.gpus)) for vm in desired.vms if vm.gpus)
        made = HostList(plan=desired.name, workers=workers)
    else:
        made = HostList(
            plan=desired.name,
            workers=tuple(host(one.vm, slots=one.slots) for one in team.workers),
            head=host(by_name[training.head], slots=0) if training.head in by_name else None,
            mesh_port=training.port if training.image else None,
            framework=training.framework,
            image=training.image or "",
            mounts=training.mounts,
            environment=training.environment,
            network=training.rdma_network or "",
        )
    absent = tuple(one.vm for one in made.everyone if one.vm not in existing)
    there = (existing[one.vm] for one in made.everyone if one.vm in existing)
    lost = tuple(vm.name for vm in there if lost_host(vm, observed, desired.identity) is not None)
    return made.model_copy(update={"absent": absent, "lost": lost})


def _seen(vm: Vm | None) -> GuestSeen:
    return (vm.detail.guest if vm is not None and vm.detail is not None else None) or GuestSeen()


def _guest_as_seen(vm: DesiredVm, seen: GuestSeen) -> DesiredGuest:
    """Return the name of a VM without one in the plan file: the guest's, else the VM's."""
    name, _, domain = seen.host_name.partition(".")
    try:
        return DesiredGuest(host_name=check_host_name(name), domain=check_domain(domain) if domain else "")
    except ValueError:
        return DesiredGuest(host_name=host_name_of(vm.name))


def _of(vm: Vm | None, field: Literal["cpus", "cores_per_socket", "memory_mib"]) -> int | None:
    if vm is None or vm.detail is None:
        return None
    value: int = getattr(vm.detail, field)
    return value or None


def _cluster(vm: DesiredVm, host: Host | None, observed: Inventory) -> str:
    """Return the cluster that a VM is in; of one that is not there yet, the only one of the plan file."""
    cluster = observed.cluster_of(host)
    if cluster is not None:
        return cluster.name
    return vm.clusters[0] if host is None and len(vm.clusters) == 1 else ""


def _management(nics: Iterable[NicAddress], seen: GuestSeen, training: str) -> str:
    """Return the address on a NIC that carries no RDMA: the plan's, else the guest's.

    A VM whose every NIC carries RDMA is reached by its address in training. If a VM has another NIC with an
    unknown address, the training address is not used for logins: its network may join the hosts only.
    """
    nics = tuple(nics)
    others = [nic for nic in nics if nic.rdma is None]
    for nic in others:
        if nic.addresses:
            return nic.addresses[0].partition("/")[0]
    macs = {nic.mac for nic in others if nic.mac}
    names = {nic.network for nic in others if nic.network}
    for shown in seen.nics:
        if shown.mac in macs or shown.network in names:
            for address in _usable(shown.addresses):
                return address
    of_rdma = {address for nic in nics if nic.rdma for address in nic.addresses}
    taken = {address.partition("/")[0] for address in of_rdma}
    shown_elsewhere = next((address for address in _usable([seen.address]) if address not in taken), "")
    return shown_elsewhere or ("" if others else training)


def _usable(addresses: Iterable[str]) -> Iterator[str]:
    """Yield addresses that others can reach, IPv4 before IPv6."""
    found = []
    for text in addresses:
        try:
            address = ipaddress.ip_interface(text).ip
        except ValueError:
            continue
        if not (address.is_link_local or address.is_loopback or address.is_unspecified):
            found.append(address)
    yield from (str(address) for address in sorted(found, key=lambda one: one.version))


def _gpus(vm: DesiredVm, existing: Vm | None, catalog: Catalog) -> Iterator[ListedHostGpu]:
    """Yield a VM's GPUs: of several profiles that it may have, those that it has."""
    detail = existing.detail if existing is not None else None
    had = [device.profile for device in detail.vgpus] if detail is not None else []
    for gpu in vm.gpus:
        if gpu.kind != "vgpu":
            yield ListedHostGpu(board=gpu.device.model or gpu.device.label or "")
            continue
        names = [profile.name for profile in gpu.profile]
        name = next((one for one in had if one in names or gpu.is_served_by_name(one)), "")
        name = name or next(iter(names), "")
        if name in had:
            had.remove(name)
        entries = catalog.by_profile(name)
        yield ListedHostGpu(
            profile=name,
            board=entries[0].board.name if entries else "",
            memory_mib=entries[0].framebuffer_mib if entries else None,
        )


def _key_file(desired: DesiredPlan, guest: DesiredGuest) -> str:
    """Return the file that holds the private key of a login; other references have none."""
    reference = desired.secrets.get(guest.login.key or "")
    return reference.value if reference is not None and reference.kind == _FILE else ""
