"""The columns and rows of one host in an integer program, and the NUMA nodes that its VMs' devices can be of.

A host's program consists of its block alone, numbered from 0, so that two hosts with the same choices have
the same columns and rows whatever their names; their free memory, cores and NICs are amounts. Hosts whose
blocks differ in amounts only are of a kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations_with_replacement, product
from math import ceil, gcd, prod
from typing import TypeVar

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed
from vgpu_cfg.planning.capacity.host_capacity import is_match
from vgpu_cfg.planning.capacity.nic_needs import NicNeed, nic_options, nodes_of
from vgpu_cfg.planning.placement.demand import Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.patterns import PatternBook, PatternItem

Seats = tuple[int | None, ...]
"""The NUMA nodes of a VM's vGPUs, then of its devices, in their order; None: any, or unknown."""

Term = tuple[int, float]
"""A column and its weight in a sum."""

BlockKey = tuple[object, ...]
"""The key of a kind of hosts: all of a block but amounts and the GPUs' places on the host."""


@dataclass(frozen=True, slots=True)
class Choice:
    """So many VMs of a shape, by its number, with one of its variants, on these nodes; a column.

    is_small: a NUMA node is too small for the VM, an amount in which hosts of a kind may differ.
    """

    number: int
    variant: int
    seats: Seats
    column: int
    shape: Shape = field(compare=False)
    is_small: bool = field(compare=False)

    @property
    def needs(self) -> Variant:
        """The vGPUs of one VM."""
        return self.shape.needs(self.variant)

    def term(self, weight: float = 1.0) -> Term:
        """Return the part of these VMs in a sum, of so much each."""
        return self.column, float(weight)


@dataclass(frozen=True, slots=True)
class GpuClass:
    """GPUs of a host that are alike, with a column for each of their patterns."""

    gpus: tuple[int, ...]
    patterns: tuple[tuple[int, ...], ...]
    columns: tuple[int, ...]


@dataclass(slots=True)
class HostBlock:
    """The columns, each from 0 to `most`, and the rows, each a sum that is no more than a number.

    sets: the sets of GPUs that could become NVLink peers, each with its column.
    over: the column of missing memory, 0 except while VMs are shared out.
    uses: the column that is 1 if the host gets GPU VMs, None if it is not needed.
    """

    most: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    rows: list[tuple[tuple[Term, ...], int]] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    gpu_classes: list[GpuClass] = field(default_factory=list)
    sets: list[tuple[frozenset[int], int]] = field(default_factory=list)
    over: int = 0
    uses: int | None = None

    def column(self, most: int, cost: float = 0.0) -> int:
        """Add a column, and return its number."""
        self.most.append(most)
        self.costs.append(cost)
        return len(self.most) - 1

    def row(self, terms: Sequence[Term], most: int) -> None:
        """Require that a sum is no more than a number; a repeated column counts twice."""
        self.rows.append((tuple(terms), most))

    def key(self) -> BlockKey:
        """Return the common key of hosts of a kind: all but the amounts, except how many GPUs are alike.

        Hosts whose GPUs other VMs hold differently have room that cannot be summed: counts of them together
        could rarely be filled in.
        """
        return (
            tuple(self.costs),
            tuple(terms for terms, _ in self.rows),
            tuple(self.choices),
            tuple((len(one.gpus), one.patterns) for one in self.gpu_classes),
            self.uses,
        )

    def joined_with(self, others: Sequence[HostBlock]) -> HostBlock:
        """Return a block with the amounts of this one and others of its kind together."""
        blocks = [self, *others]
        return replace(
            self,
            most=[sum(amounts) for amounts in zip(*(one.most for one in blocks), strict=True)],
            rows=[
                (rows[0][0], sum(most for _, most in rows))
                for rows in zip(*(one.rows for one in blocks), strict=True)
            ],
        )


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


_MOST_WAYS = 64
"""The limit of ways to spread a VM over nodes; beyond it the program does not distinguish them."""


def ways_to_seat(host: HostState, shape: Shape, needs: Variant) -> list[Seats]:
    """List the nodes that the vGPUs and devices of a VM could be of; one way if that does not matter."""
    things: list[VgpuNeed | DeviceEntry] = [*needs, *shape.dynamic]
    anywhere: Seats = (None,) * len(things)
    is_near = any(nic.near_gpu for nic in shape.nics)
    if not is_near and (shape.numa is not NumaPolicy.FOLLOW_GPU or not host.nodes):
        return [anywhere]
    parts: dict[VgpuNeed | DeviceEntry | int, list[int]] = {}
    for place, thing in enumerate(things):
        group = thing.peers if isinstance(thing, VgpuNeed) and host.is_grouped(thing) else None
        parts.setdefault(thing if group is None else group, []).append(place)
    ways = [_seats_of(host, things[places[0]], len(places)) for places in parts.values()]
    if not 0 < prod(map(len, ways)) <= _MOST_WAYS:
        return [anywhere]
    order = list(chain.from_iterable(parts.values()))
    nodes = (chain.from_iterable(chosen) for chosen in product(*ways))
    sorted_seats = (sorted(zip(order, each, strict=True)) for each in nodes)
    return list(dict.fromkeys(tuple(node for _, node in seats) for seats in sorted_seats))


def _seats_of(host: HostState, thing: VgpuNeed | DeviceEntry, count: int) -> Collection[Seats]:
    """Return the nodes that so many equal vGPUs or devices, or all NVLink peers of a group, could be of."""
    if isinstance(thing, DeviceEntry):
        nodes = {slot.pci.numa_node for slot in host.free_slots() if is_match(slot, thing)}
    elif host.is_grouped(thing):
        return dict.fromkeys(seats_of_set(host, one) for one in host.free_sets(thing, count, host.gpus))
    else:
        nodes = {gpu.node for gpu in host.gpus if gpu.refuse(thing) is None}
    known = sorted(nodes, key=lambda node: -1 if node is None else node)
    return list(combinations_with_replacement(known, count))


def seats_of_set(host: HostState, gpus: frozenset[int]) -> Seats:
    """Return the nodes of a set of GPUs, in their order."""
    return tuple(host.gpus[index].node for index in sorted(gpus))


def known_nodes(seats: Sequence[int | None]) -> frozenset[int]:
    """Return the nodes of GPUs; empty if one is not known."""
    nodes = frozenset(node for node in seats if node is not None)
    return frozenset() if None in seats else nodes


def tied_nodes(shape: Shape, seats: Sequence[int | None]) -> frozenset[int]:
    """Return the NUMA nodes that a VM is tied to by its GPUs' nodes; empty if that is open."""
    if shape.numa is NumaPolicy.NODE:
        return frozenset(shape.numa_nodes)
    return frozenset() if shape.numa is NumaPolicy.OFF else known_nodes(seats)
