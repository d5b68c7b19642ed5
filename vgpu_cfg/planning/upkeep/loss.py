"""The pool's loss with the absent parts: GPUs, their memory, and the NVLink that joins them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.capacity.topology import Domain, Topologies
from vgpu_cfg.planning.pool.gpus import PoolReader
from vgpu_cfg.planning.upkeep.away import Away, gpus_of


@dataclass(frozen=True, slots=True)
class PeerSets:
    """The sets of so many GPUs that can be NVLink peers of a VM: now, and without the absent parts."""

    size: int
    now: int
    left: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The pool's loss: GPUs by name, their memory, its free part now, and the NVLink sets.

    `links` are the NVLink domains that lose a GPU, with their hosts' names, `peer_sets` those of their hosts.
    """

    gpus: Mapping[str, int]
    memory_mib: int
    free_mib: int
    links: tuple[tuple[str, Domain], ...]
    peer_sets: tuple[PeerSets, ...]


def find_loss(away: Away, observed: Inventory, catalog: Catalog) -> Loss:
    """Add up the losses."""
    gone = gpus_of(away)
    hosts = {host.moid: host for host, _ in gone}
    reader = PoolReader(observed, catalog)
    addresses = {(host.name, gpu.pci_id) for host, gpu in gone}
    free = (
        one.free_framebuffer_mib
        for host in hosts.values()
        for one in reader.gpus(reader.capacity(host))
        if (one.host, one.pci_id) in addresses
    )
    topologies = Topologies(observed, catalog)
    links = {
        (host.name, domain.gpus): (host.name, domain)
        for host, gpu in gone
        if (domain := topologies.of(host).domain(gpu.pci_id)) is not None
    }
    return Loss(
        dict(Counter(gpu.name for _, gpu in gone)),
        sum(gpu.memory_mib for _, gpu in gone),
        sum(free),
        tuple(links.values()),
        tuple(_peer_sets(hosts.values(), addresses, CapacityReader(observed, catalog))),
    )


def _peer_sets(
    hosts: Iterable[Host], gone: Collection[tuple[str, str]], reader: CapacityReader
) -> Iterator[PeerSets]:
    now: Counter[int] = Counter()
    left: Counter[int] = Counter()
    for host in hosts:
        for members in reader.peer_sets(host, with_guesses=True):
            now[len(members)] += 1
            stays = all((host.name, host.gpus[index].pci_id) not in gone for index in members)
            left[len(members)] += stays
    for size in sorted(now):
        yield PeerSets(size, now[size], left[size])
