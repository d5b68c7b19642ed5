"""GPUs of a host that NVLink joins, possible peers of one VM, NICs near GPUs, and the source of each fact.

The host's shell (`nvidia-smi topo -m`) takes precedence over vCenter, and vCenter over the catalog. No API
reports the GPUs that a bridge joins: with vCenter alone, its device groups show how many one joins, and the
members are a guess. Disagreements of sources are kept.

Fabric Manager divides an NVSwitch board of eight GPUs into one partition of eight, two of four (modules 1-4
and 5-8) and four of two. These are the partitions of a printed `fmpm -l` of an HGX H100, and of NVIDIA's
guide to shared NVSwitch (WP-12736-002); a field report by Frank Denneman shows the same on vSphere.

Belief: group-of-one-profile-is-peers, group-profile-means-a-bridge, group-gpus-follow-numa.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from itertools import combinations

from vgpu_cfg.catalog import Board, Catalog, resolve_profile
from vgpu_cfg.catalog.nic import load_nics
from vgpu_cfg.model.observed.host_facts import GpuLinks, ShellFacts
from vgpu_cfg.model.observed.inventory import DeviceGroupInfo, Gpu, Host, Inventory
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.model.wording import is_at_least
from vgpu_cfg.planning.capacity.pci_tree import NODE, PHB, PIX, PXB, SYS, PciTree, is_switched

NVLINK = "NV"
"""The start of the word for NVLink; the number of links follows if reported."""

ORDER = (NVLINK, PIX, PXB, PHB, NODE, SYS)
"""From near to far. Source: nvidia-smi's legend; NVLink before PCIe as NCCL orders them."""

MODULES_PER_HALF = 4
"""GPUs of an HGX board with the modules 1 to 4 form one half, 5 to 8 the other. Source: F. Denneman, 2023."""


class Source(StrEnum):
    """The source of a fact."""

    SHELL = "nvidia-smi"
    BOARD = "board"
    BRIDGES = "PCI bridges"
    GUESS = "guess"


@dataclass(frozen=True, slots=True)
class Domain:
    """GPUs that NVLink joins, by PCI address; `kind` is "bridge" or "nvswitch".

    Some may be joined over others only, as on a hybrid cube mesh: `Topology.are_peers` tells.
    """

    gpus: frozenset[str]
    kind: str
    source: Source

    @property
    def is_certain(self) -> bool:
        """Whether it is reported or follows from the board, and is no guess."""
        return self.source is not Source.GUESS


@dataclass(frozen=True, slots=True)
class Link:
    """The way between two functions: NV12, NV, PIX, PXB, PHB, NODE or SYS."""

    word: str
    source: Source

    @property
    def rank(self) -> int:
        """Its place from near to far, after all that are known for a word that is not."""
        word = NVLINK if self.word.startswith(NVLINK) else self.word
        return ORDER.index(word) if word in ORDER else len(ORDER)


@dataclass(frozen=True, slots=True)
class NearNic:
    """A NIC near a GPU; `device` is its vmnic, empty for one that is passed through."""

    pci_id: str
    device: str
    link: Link


@dataclass(frozen=True, slots=True)
class NodeDisagrees:
    """A GPU that vCenter has on one NUMA node, and nvidia-smi on another."""

    gpu: str
    vcenter: int
    shell: int


@dataclass(frozen=True, slots=True)
class GroupWithoutLink:
    """A device group that vCenter offers, of so many GPUs of a board, and nvidia-smi shows no such NVLink."""

    group: str
    size: int
    largest: int


@dataclass(frozen=True, slots=True)
class LinkAcrossBoards:
    """GPUs that nvidia-smi shows joined, and that are different boards according to vCenter."""

    gpus: tuple[str, ...]
    boards: tuple[str, ...]


Disagreement = NodeDisagrees | GroupWithoutLink | LinkAcrossBoards


class Topology:
    """The known topology of one host. Everything about a GPU goes by its PCI address."""

    def __init__(self, host: Host, shell: ShellFacts | None, boards: Mapping[str, Board]) -> None:
        self.host = host
        self._boards = boards
        self._links: GpuLinks | None = shell.links if shell is not None else None
        reported = shell.gpus if shell is not None else {}
        self._modules = {
            pci_id: one.module_id for pci_id, one in reported.items() if one.module_id is not None
        }
        self._tree = PciTree(host)
        self._nodes = {device.pci_id: device.numa_node for device in host.pci_devices}
        self._nodes |= {nic.pci_id: nic.numa_node for nic in host.nics if nic.numa_node is not None}
        self._nodes |= {gpu.pci_id: gpu.numa_node for gpu in host.gpus}

    @classmethod
    def of(cls, host: Host, shell: ShellFacts | None, catalog: Catalog) -> Topology:
        """Combine vCenter's data on a host, its shell's if read, and its boards."""
        boards: dict[str, Board] = {}
        for gpu in host.gpus:
            board = catalog.of_device(gpu.pci)
            if board is not None:
                boards[gpu.pci_id] = board
        return cls(host, shell, boards)

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """The NVLink domains of two GPUs and more, in the order of their addresses; no GPU is in two."""
        found = self._known_domains()
        unknown = [gpu for gpu in self._in_order() if not self._is_known(gpu.pci_id)]
        found += self._switched(unknown)
        found += self._guessed(unknown)
        return tuple(sorted(found, key=lambda domain: min(domain.gpus)))

    def domain(self, pci_id: str) -> Domain | None:
        """Return the domain of a GPU, None where NVLink joins it to none that is known."""
        return next((domain for domain in self.domains if pci_id in domain.gpus), None)

    def group_sizes(self, domain: Domain) -> frozenset[int]:
        """Return how many GPUs of a domain the host's device groups join."""
        return frozenset(
            size
            for _, board_key, size in self._nvlink_groups()
            if all(self._is_of(pci_id, board_key) for pci_id in domain.gpus)
        )

    def are_peers(self, gpus: Iterable[str]) -> bool:
        """Whether NVLink joins each of these GPUs of a domain to every other.

        Without a matrix, all GPUs of a bridge or a baseboard are assumed to be.
        """
        links = self._links.links if self._links is not None else {}
        return all(
            links[one].get(other, NVLINK).startswith(NVLINK)
            for one, other in combinations(gpus, 2)
            if one in links
        )

    def module(self, pci_id: str) -> int | None:
        """Return the number of a GPU's module on its HGX board, None if unknown."""
        return self._modules.get(pci_id)

    def half(self, pci_id: str) -> int | None:
        """Return the half of the HGX board, 0 or 1, None for other boards and if unknown."""
        module, board = self.module(pci_id), self._boards.get(pci_id)
        if module is None or module < 1 or not is_switched(self.host, board):
            return None
        return (module - 1) // MODULES_PER_HALF

    def numa_node(self, pci_id: str) -> int | None:
        """Return the NUMA node of a function from vCenter, else from nvidia-smi, None if unknown."""
        node = self._nodes.get(pci_id)
        return node if node is not None or self._links is None else self._links.numa_nodes.get(pci_id)

    def distance(self, one: str, other: str) -> Link | None:
        """Return the path between two functions, None if unknown."""
        reported = self._links.links.get(one, {}).get(other) if self._links is not None else None
        if reported is not None and reported != "N/A":
            return Link(reported, Source.SHELL)
        domain = self.domain(one)
        if domain is not None and other in domain.gpus:
            return Link(NVLINK, domain.source)
        word = self._tree.distance(one, other, (self.numa_node(one), self.numa_node(other)))
        return None if word is None else Link(word, Source.BRIDGES)

    def bridges(self, pci_id: str) -> tuple[str, ...]:
        """Name the bridges above a function, the nearest first; empty if the host reports none."""
        return self._tree.chain(pci_id)

    def has_root(self, pci_id: str) -> bool:
        """Whether the last of the bridges above a function is its root port; else others may be above."""
        return self._tree.root(pci_id) is not None

    def is_one_root(self, one: str, other: str) -> bool | None:
        """Whether two functions are of one PCIe root complex; None where that is not known."""
        return self._tree.is_one_root(one, other)

    def nics(self) -> tuple[tuple[str, str], ...]:
        """List the RoCE NICs with their vmnics, without any all NICs; by address."""
        known = load_nics()
        devices = {nic.pci_id: nic.device for nic in self.host.nics if nic.pci_id}
        passed = {device.pci_id: device for device in self.host.pci_devices}
        rdma = {
            pci_id: devices.get(pci_id, "")
            for pci_id, device in passed.items()
            if known.names_of(device.vendor_id, device.device_id) and not device.is_infiniband
        }
        return tuple(sorted((rdma or devices).items()))

    def nics_near(self, gpu: str) -> tuple[NearNic, ...]:
        """List the NICs that are nearest to a GPU, all at one distance; none of another NUMA node."""
        found = [
            NearNic(pci_id, device, link)
            for pci_id, device in self.nics()
            if (link := self.distance(gpu, pci_id)) is not None and link.word != SYS
        ]
        nearest = min((nic.link.rank for nic in found), default=0)
        return tuple(nic for nic in found if nic.link.rank == nearest)

    @cached_property
    def disagreements(self) -> tuple[Disagreement, ...]:
        """Return the differences between nvidia-smi and vCenter."""
        if self._links is None:
            return ()
        found: list[Disagreement] = []
        for pci_id, node in sorted(self._links.numa_nodes.items()):
            known = self._nodes.get(pci_id)
            if known is not None and known != node:
                found.append(NodeDisagrees(pci_id, known, node))
        for name, board_key, size in self._nvlink_groups():
            largest = max(
                (
                    self._most_peers(domain, size)
                    for domain in self._known_domains()
                    if any(self._is_of(pci_id, board_key) for pci_id in domain.gpus)
                ),
                default=0,
            )
            reported = [pci_id for pci_id in self._links.links if self._is_of(pci_id, board_key)]
            if len(reported) >= size > largest:
                found.append(GroupWithoutLink(name, size, largest))
        for domain in self._known_domains():
            gpus = sorted(domain.gpus)
            boards = tuple(dict.fromkeys(self._boards[one].name for one in gpus if one in self._boards))
            if len(boards) > 1:
                found.append(LinkAcrossBoards(tuple(gpus), boards))
        return tuple(found)

    def _most_peers(self, domain: Domain, size: int) -> int:
        """Count how many GPUs of a domain are peers of each other, no more than `size`."""
        sizes = range(min(size, len(domain.gpus)), 1, -1)
        members = sorted(domain.gpus)
        return next((n for n in sizes if any(map(self.are_peers, combinations(members, n)))), 0)

    def _in_order(self) -> list[Gpu]:
        return sorted(self.host.gpus, key=lambda gpu: gpu.pci_id)

    def _is_known(self, pci_id: str) -> bool:
        """Whether the matrix speaks of the GPU: one that is passed through is not in it."""
        return self._links is not None and pci_id in self._links.links

    def _is_of(self, pci_id: str, board_key: str) -> bool:
        board = self._boards.get(pci_id)
        return board is not None and board.key == board_key

    def _known_domains(self) -> list[Domain]:
        found: list[Domain] = []
        links = self._links.links if self._links is not None else {}
        placed: set[str] = set()
        for first in sorted(links):
            if first in placed:
                continue
            reached, todo = {first}, [first]
            while todo:
                row = links.get(todo.pop(), {})
                new = {other for other, word in row.items() if word.startswith(NVLINK)} - reached
                reached |= new
                todo += new
            placed |= reached
            if len(reached) > 1:
                found.append(Domain(frozenset(reached), self._kind(reached), Source.SHELL))
        return found

    def _kind(self, gpus: Iterable[str]) -> str:
        boards = [self._boards.get(pci_id) for pci_id in gpus]
        return "nvswitch" if any(is_switched(self.host, board) for board in boards) else "bridge"

    def _switched(self, gpus: Sequence[Gpu]) -> list[Domain]:
        """Return the GPUs of each SXM board: its baseboard joins them all, by NVSwitch or directly."""
        found: dict[str, list[str]] = {}
        for gpu in gpus:
            board = self._boards.get(gpu.pci_id)
            if board is not None and board.is_nvswitch:
                found.setdefault(board.key, []).append(gpu.pci_id)
        return [
            Domain(frozenset(members), self._kind(members), Source.BOARD)
            for members in found.values()
            if len(members) > 1
        ]

    def _guessed(self, gpus: Sequence[Gpu]) -> list[Domain]:
        """Return the guess from device groups: GPUs of a node, by their addresses, so many at a time."""
        sizes: dict[str, int] = {}
        for _, board_key, size in self._nvlink_groups():
            sizes[board_key] = max(size, sizes.get(board_key, 0))
        found: list[Domain] = []
        for board_key, size in sizes.items():
            found += [
                Domain(frozenset(members), "bridge", Source.GUESS)
                for members in self._runs([gpu for gpu in gpus if self._is_of(gpu.pci_id, board_key)], size)
            ]
        return found

    def _runs(self, gpus: Sequence[Gpu], size: int) -> list[tuple[str, ...]]:
        by_node: dict[int | None, list[str]] = {}
        for gpu in gpus:
            board = self._boards.get(gpu.pci_id)
            if board is not None and not board.is_nvswitch:
                by_node.setdefault(self.numa_node(gpu.pci_id), []).append(gpu.pci_id)
        among = list(by_node.values())
        if not any(len(members) >= size for members in among):
            among = [[pci_id for members in among for pci_id in members]]
        return [
            tuple(members[start : start + size])
            for members in among
            for start in range(0, len(members) - size + 1, size)
        ]

    def _nvlink_groups(self) -> list[tuple[str, str, int]]:
        """List name, board and size of the groups of vGPUs of one profile that a board of this host has."""
        found = []
        for group in self.host.device_groups:
            profile = _profile_of(group)
            if profile is None:
                continue
            for board in {board.key: board for board in self._boards.values()}.values():
                entry = resolve_profile(board, profile)
                if entry is not None and entry.is_nvlink_p2p:
                    found.append((group.name, board.key, len(group.parts)))
        return found


class Topologies:
    """The topology of each host of an inventory, made when it is first asked for."""

    def __init__(self, observed: Inventory, catalog: Catalog) -> None:
        self._facts, self._catalog = observed.facts.hosts, catalog
        self._known: dict[str, Topology] = {}

    def of(self, host: Host) -> Topology:
        """Return the topology of a host."""
        if host.moid not in self._known:
            facts = self._facts.get(host.moid)
            shell = facts.shell if facts is not None else None
            self._known[host.moid] = Topology.of(host, shell, self._catalog)
        return self._known[host.moid]


def _profile_of(group: DeviceGroupInfo) -> VgpuProfile | None:
    """Return the profile of a group that has two vGPUs and more of it, and nothing else."""
    name, _ = group.peers
    try:
        return VgpuProfile.parse(name) if name else None
    except ValueError:
        return None


GROUPS_FROM = (8, 0)
"""The first release with vendor device groups."""

_MODULE_PARTITIONS = (
    (1, 2, 3, 4, 5, 6, 7, 8),
    (1, 2, 3, 4),
    (5, 6, 7, 8),
    (1, 3),
    (2, 4),
    (5, 7),
    (6, 8),
)

_MODULES_BY_ADDRESS = (2, 4, 1, 3, 6, 8, 5, 7)
"""Modules in the order of PCI addresses, as a report of one HGX H100 shows them; a guess without other data.

Other baseboards have others: in an example of NVIDIA's guide to shared NVSwitch (WP-12736-002) the modules 1
to 4 have the higher addresses. So unless a shell reported them, the GPUs of a partition are a guess.
"""


def has_group_api(host: Host) -> bool:
    """Whether the host's release has device groups."""
    return is_at_least(host.version, GROUPS_FROM)


def group_of(host: Host, profile: str, count: int) -> DeviceGroupInfo | None:
    """Return the device group of so many vGPUs of a profile and nothing else, None where there is none."""
    return next((group for group in host.device_groups if group.peers == (profile, count)), None)


def peer_sets(topology: Topology, *, with_guesses: bool = True) -> tuple[frozenset[int], ...]:
    """List the sets of GPUs, by index, that could be one device group each; the large ones first.

    vCenter reports how many GPUs a group has, not which: the NVLink domains do, as far as they are known.
    Without guesses, any GPUs of the guessed domains could be.
    """
    indexes = {gpu.pci_id: index for index, gpu in enumerate(topology.host.gpus)}
    domains = list(topology.domains)
    found = {
        frozenset(indexes[pci_id] for pci_id in members)
        for domain in domains
        for members in _sets_of(domain, topology)
    }
    guessed = [] if with_guesses else [domain for domain in domains if _is_guess(domain, topology)]
    for sizes in {topology.group_sizes(domain) for domain in guessed}:
        alike = (domain.gpus for domain in guessed if topology.group_sizes(domain) == sizes)
        gpus = sorted(indexes[pci_id] for domain in alike for pci_id in domain)
        found |= {frozenset(members) for size in sizes for members in combinations(gpus, size)}
    return tuple(sorted(found, key=lambda one: (-len(one), sorted(one))))


def _is_guess(domain: Domain, topology: Topology) -> bool:
    """Whether the joined GPUs, or their modules on an NVSwitch board, are a guess.

    An unreported one, as of a passthrough GPU, follows from the others.
    """
    unknown = sum(topology.module(gpu) is None for gpu in domain.gpus)
    return not domain.is_certain or (domain.kind == "nvswitch" and unknown > 1)


def _sets_of(domain: Domain, topology: Topology) -> Iterator[Collection[str]]:
    sizes = topology.group_sizes(domain)
    gpus = sorted(domain.gpus)
    if domain.kind == "nvswitch" and len(baseboard := _baseboard(domain, topology)) == len(
        _MODULES_BY_ADDRESS
    ):
        by_module = _by_module(baseboard, topology)
        for partition in _MODULE_PARTITIONS:
            members = [by_module[module] for module in partition]
            if len(partition) in sizes and domain.gpus.issuperset(members):
                yield members
        return
    for size in sizes:
        yield from (members for members in combinations(gpus, size) if topology.are_peers(members))


def _baseboard(domain: Domain, topology: Topology) -> list[str]:
    """List the GPUs of the domain's board, with those that are passed through: a partition counts modules."""
    own = {gpu.pci.device_id for gpu in topology.host.gpus if gpu.pci_id in domain.gpus}
    return sorted(gpu.pci_id for gpu in topology.host.gpus if gpu.pci.device_id in own)


def _by_module(gpus: Sequence[str], topology: Topology) -> dict[int, str]:
    reported = {module: gpu for gpu in gpus if (module := topology.module(gpu)) is not None}
    if len(reported) == len(gpus) - 1:
        module = next(one for one in _MODULES_BY_ADDRESS if one not in reported)
        reported[module] = next(gpu for gpu in gpus if gpu not in reported.values())
    if set(reported) == set(_MODULES_BY_ADDRESS):
        return reported
    return dict(zip(_MODULES_BY_ADDRESS, gpus, strict=True))
