"""The columns and rows of one host's block: VMs ask for no more than the host supplies."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from math import ceil, gcd
from typing import TypeVar

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.nic_needs import NicNeed, nic_options, nodes_of
from vgpu_cfg.planning.capacity.passthrough_slots import is_match
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_block import Choice, GpuClass, HostBlock, Term
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.patterns import PatternBook, PatternItem
from vgpu_cfg.planning.placement.seats import Seats, known_nodes, seats_of_set, tied_nodes, ways_to_seat

_GIB = 1024
_OVER, _FAR, _UNLIKE = 20.0, 10.0, 2000.0
"""The costs of a core or GiB that a node lacks, of a NIC far from its GPU, and of a VM's unlike boards."""

T = TypeVar("T")

_Flow = defaultdict[T, defaultdict[Seats, list[Term]]]
"""Terms of each thing that is asked for or supplied, by the NUMA nodes that it is of."""


_Group = tuple[str, int]
"""NVLink peers: the name of their profile, and how many."""


def _flow() -> _Flow[T]:
    return defaultdict(lambda: defaultdict(list))


@dataclass(frozen=True, slots=True)
class Wanted:
    """A shape with its number and a variant's, how many VMs have it, and the rank of the host for it."""

    number: int
    shape: Shape
    variant: int
    count: int
    rank: int


@dataclass(slots=True)
class BlockMaker:
    """Makes the block of one host. `book` knows the patterns of GPUs."""

    host: HostState
    book: PatternBook
    block: HostBlock = field(default_factory=HostBlock)

    def make(self, choices: Sequence[Wanted], most_vms: int | None) -> HostBlock:
        """Model a host for the VMs that it could take; with `most_vms`, note whether it gets GPU VMs."""
        for wanted in choices:
            self._choose(wanted)
        self._memory()
        self._gpus()
        self._apart()
        self._slots()
        self._nics()
        self._nodes()
        own = [choice.term() for choice in self.block.choices if choice.shape.has_gpus]
        if own and most_vms is not None and not self.host.is_in_use:
            self.block.uses = self.block.column(1)
            self.block.row([*own, (self.block.uses, -float(most_vms))], 0)
        return self.block

    def _choose(self, wanted: Wanted) -> None:
        """Add a column for each way to spread a VM over NUMA nodes."""
        shape, host = wanted.shape, self.host
        most = min(shape.most_per_host or wanted.count, wanted.count)
        most = min(most, max(0, host.free_mib) // shape.memory_mib) if shape.memory_mib else most
        cost = 10_000.0 * host.cost + 1000.0 * wanted.rank + 100.0 * wanted.variant
        if len(shape.dynamic) > 1 and (fit := host.fit(shape)) is not None:
            cost += _UNLIKE * fit.unlike
        for seats in ways_to_seat(host, shape, shape.needs(wanted.variant)):
            nodes = tied_nodes(shape, seats)
            is_small = any(
                node.level(ceil(shape.cpus / len(nodes)), shape.memory_mib // len(nodes)) == 2
                for node in host.nodes
                if node.node_id in nodes
            )
            column = self.block.column(most, cost)
            self.block.choices.append(Choice(wanted.number, wanted.variant, seats, column, shape, is_small))

    def _cover(self, asked: _Flow[T], given: _Flow[T]) -> None:
        """Require that no more is asked for than is supplied: of the nodes that VMs name, and in all."""
        for thing, by_seats in asked.items():
            supply = given[thing]
            for seats, terms in by_seats.items():
                if any(node is not None for node in seats):
                    self.block.row([*terms, *supply[seats]], 0)
            self.block.row([*chain(*by_seats.values(), *supply.values())], 0)

    def _memory(self) -> None:
        """Count memory in the largest unit of which all VMs are multiples: less than one is of no use."""
        choices = self.block.choices
        unit = gcd(*(choice.shape.memory_mib for choice in choices)) or 1
        self.block.over = self.block.column(0)
        terms = [choice.term(choice.shape.memory_mib // unit) for choice in choices]
        over = (self.block.over, -float(max(1, _GIB // unit)))
        self.block.row([*terms, over], max(0, self.host.free_mib) // unit)

    def _gpus(self) -> None:
        """Limit the VMs' requests for GPUs, by node, to the supply of the GPUs' patterns."""
        single: _Flow[PatternItem] = _flow()
        joined: _Flow[_Group] = _flow()
        peers: dict[_Group, VgpuNeed] = {}
        for choice in self.block.choices:
            groups: dict[int | None, list[tuple[VgpuNeed, int | None]]] = defaultdict(list)
            counts = Counter[tuple[VgpuNeed, int | None]]()
            for need, node in zip(choice.needs, choice.seats, strict=False):
                if self.host.is_grouped(need):
                    groups[need.peers].append((need, node))
                else:
                    counts[need, node] += 1
            for (need, node), count in counts.items():
                single[PatternItem(need, choice.shape.line_apart)][node,].append(choice.term(count))
            for members in groups.values():
                key = (members[0][0].name, len(members))
                joined[key][tuple(node for _, node in members)].append(choice.term())
                peers[key] = members[0][0]
        taken = self._peer_sets(joined, peers)
        self._cover(single, self._patterns(taken))

    def _peer_sets(self, joined: _Flow[_Group], peers: dict[_Group, VgpuNeed]) -> dict[int, list[Term]]:
        """Add a column for each set of peers, and return, by GPU, those of the sets that it is in."""
        taken: dict[int, list[Term]] = defaultdict(list)
        given: _Flow[_Group] = _flow()
        for key, need in peers.items():
            for members in self.host.free_sets(need, key[1], self.host.gpus):
                column = self.block.column(1, 10.0 * len(members))
                given[key][seats_of_set(self.host, members)].append((column, -1.0))
                self.block.sets.append((members, column))
                for gpu in members:
                    taken[gpu].append((column, 1.0))
        self._cover(joined, given)
        for gpu in sorted(taken):
            self.block.row(taken[gpu], 1)
        return taken

    def _patterns(self, taken: dict[int, list[Term]]) -> _Flow[PatternItem]:
        """Add the possible contents of the host's GPUs; a GPU of a group of peers holds nothing else."""
        alike: dict[Hashable, list[int]] = defaultdict(list)
        for number, gpu in enumerate(self.host.gpus):
            alike[gpu.signature()].append(number)
        supply: _Flow[PatternItem] = _flow()
        for gpus in alike.values():
            first = self.host.gpus[gpus[0]]
            patterns = self.book.of(first)
            cost = 10.0 if first.is_idle else 0.1
            columns = tuple(self.block.column(len(gpus), cost) for _ in patterns)
            self.block.gpu_classes.append(GpuClass(tuple(gpus), patterns, columns))
            used = [(column, 1.0) for column in columns]
            used += [term for gpu in gpus for term in taken.get(gpu, ())]
            if used:
                self.block.row(used, len(gpus))
            for pattern, column in zip(patterns, columns, strict=True):
                for item, count in zip(self.book.items, pattern, strict=True):
                    if count:
                        supply[item][first.node,].append((column, -float(count)))
        return supply

    def _lines(self, is_bound: Callable[[Shape], bool]) -> Iterator[tuple[str, list[Choice]]]:
        """Yield the lines whose VMs keep apart from each other, with their choices."""
        lines: dict[str, list[Choice]] = defaultdict(list)
        for choice in self.block.choices:
            if is_bound(choice.shape):
                lines[choice.shape.line].append(choice)
        yield from lines.items()

    def _apart(self) -> None:
        """Limit the VMs of a line on the host, and on each of its NUMA nodes."""
        for line, own in self._lines(lambda shape: shape.most_per_host > 0):
            most = min(choice.shape.most_per_host for choice in own) - self.host.residents.get(line, 0)
            self.block.row([choice.term() for choice in own], max(0, most))
        for line, own in self._lines(lambda shape: shape.spread is Spread.NUMA and shape.must):
            if (room := self._free_nodes(line, own)) is not None:
                self.block.row([choice.term() for choice in own], room)
            for node in self.host.nodes:
                tied = (one for one in own if node.node_id in tied_nodes(one.shape, one.seats))
                if terms := [choice.term() for choice in tied]:
                    self.block.row(terms, int(not self.host.is_on_node(line, node.node_id)))

    def _free_nodes(self, line: str, chosen: Sequence[Choice]) -> int | None:
        """Count the NUMA nodes without a VM of a line that one could have, None if it may have none."""
        host = self.host
        nodes: set[int | None] = {node.node_id for node in host.nodes}
        policies = {choice.shape.numa for choice in chosen}
        if policies == {NumaPolicy.FOLLOW_GPU} and all(choice.needs for choice in chosen):
            boards = {need.board_key for choice in chosen for need in choice.needs}
            nodes = {gpu.node for gpu in host.gpus if gpu.board_key in boards and gpu.obstacle is None}
        if not host.nodes or None in nodes or NumaPolicy.OFF in policies:
            return None
        return sum(node is not None and not host.is_on_node(line, node) for node in nodes)

    def _slots(self) -> None:
        """Let every function that is passed through go to one VM: the named ones, and those that match."""
        asked: _Flow[DeviceEntry] = _flow()
        given: _Flow[DeviceEntry] = _flow()
        named: dict[str, list[Term]] = defaultdict(list)
        for choice in self.block.choices:
            seats = choice.seats[len(choice.needs) :]
            for need, node in zip(choice.shape.dynamic, seats, strict=True):
                asked[need][node,].append(choice.term())
            for address in dict.fromkeys(choice.shape.fixed):
                named[address].append(choice.term())
        alike: dict[tuple[tuple[DeviceEntry, ...], int | None], set[str]] = defaultdict(set)
        for slot in self.host.free_slots() if asked or named else ():
            suits = tuple(need for need in asked if is_match(slot, need))
            alike[suits, slot.pci.numa_node].add(slot.pci.pci_id)
        for (suits, node), addresses in alike.items():
            counts = (
                (choice, len(addresses.intersection(choice.shape.fixed))) for choice in self.block.choices
            )
            used = [choice.term(count) for choice, count in counts if count]
            for match in suits:
                column = self.block.column(len(addresses))
                given[match][node,].append((column, -1.0))
                used.append((column, 1.0))
            self.block.row(used, len(addresses))
        self._cover(asked, given)
        for terms in named.values():
            self.block.row(terms, 1)

    def _nics(self) -> None:
        """Let every function go to one NIC, and one that must be near be of a node of the VM's GPUs."""
        stock = self.host.stock
        nodes = nodes_of(stock)
        asked: dict[tuple[NicNeed, frozenset[int]], list[Term]] = defaultdict(list)
        for choice in self.block.choices:
            near = known_nodes(self._gpu_nodes(choice))
            for need, count in Counter(choice.shape.nics).items():
                asked[need, near if need.near_gpu else frozenset()].append(choice.term(count))
        given: dict[str, list[Term]] = defaultdict(list)
        for (need, near), terms in asked.items():
            for pci_id, free in nic_options(need, stock):
                is_far = bool(near) and nodes.get(pci_id) not in (None, *near)
                if not (is_far and need.must_be_near):
                    column = self.block.column(free, _FAR if is_far else 0.0)
                    terms.append((column, -1.0))
                    given[pci_id].append((column, 1.0))
            self.block.row(terms, 0)
        for terms in given.values():
            self.block.row(terms, max(self.block.most[column] for column, _ in terms))

    def _gpu_nodes(self, choice: Choice) -> list[int | None]:
        return [*choice.seats, *self.host.gpu_nodes((), choice.shape.fixed)]

    def _nodes(self) -> None:
        """Price the VMs' requests to a node beyond its cores and its memory: it costs speed, and no place."""
        shares = [(one, tied_nodes(one.shape, self._gpu_nodes(one))) for one in self.block.choices]
        for node in self.host.nodes:
            own = [(one, one.shape, len(nodes)) for one, nodes in shares if node.node_id in nodes]
            if any(self.block.most[one.column] for one, *_ in own):
                cores = [one.term(ceil(shape.cpus / count)) for one, shape, count in own]
                memory = [one.term(shape.memory_mib // count) for one, shape, count in own]
                for terms, free, unit in ((cores, node.free_cores, 1), (memory, node.free_mib, _GIB)):
                    over = self.block.column(1_000_000, _OVER)
                    self.block.row([*terms, (over, -float(unit))], max(0, free))
