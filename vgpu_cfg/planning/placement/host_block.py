"""One host's possible content in an integer program: hosts whose blocks differ in amounts only are of a kind.

A host's program consists of its block alone, numbered from 0, so that two hosts with the same choices have
the same columns and rows whatever their names; their free memory, cores and NICs are amounts. A NUMA node is
part of the choices: a VM of two vGPUs may have both on node 0, both on node 1, or one on each, and uses the
cores, the memory and the NICs of those.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations_with_replacement, product
from math import ceil, gcd
from typing import Any

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.nic_needs import NicNeed, nic_options, nodes_of
from vgpu_cfg.planning.capacity.passthrough_slots import is_match
from vgpu_cfg.planning.capacity.peer_groups import has_group_api
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.placement.demand import Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.patterns import PatternBook, PatternItem

Seats = tuple[int | None, ...]
"""The NUMA nodes of a VM's vGPUs, then of its devices, in their order; None: any, or unknown."""
Terms = tuple[tuple[int, float], ...]
BlockKey = tuple[object, ...]
"""The key of a kind of hosts: all of a block but amounts and the GPUs' places on the host."""

_MOST_SEATS = 64
"""The limit of ways to spread a VM over nodes; beyond it the program does not distinguish them."""
_GIB = 1024
_OVER, _FAR, TOO_SMALL, _UNLIKE = 20.0, 10.0, 400.0, 2000.0
"""The costs of a core or GiB that a node lacks, a NIC far from its GPU, a node too small for a VM, and boards
of a VM that are unlike."""


@dataclass(frozen=True, slots=True)
class Choice:
    """So many VMs of a shape, by its number, with one of its variants, on these nodes; a column."""

    shape: int
    variant: int
    seats: Seats
    column: int


@dataclass(frozen=True, slots=True)
class GpuClass:
    """GPUs of a host that are alike, with a column for each of their patterns."""

    gpus: tuple[int, ...]
    patterns: tuple[tuple[int, ...], ...]
    columns: tuple[int, ...]


@dataclass(slots=True)
class HostBlock:
    """The columns, each from 0 to `most`, and the rows, each a sum that is no more than a number.

    `uses` is the column that is 1 if the host gets GPU VMs, None if it is not needed. `sets` are the sets of
    GPUs that could become NVLink peers, each with its column. `over` is the column of missing memory, 0
    except while VMs are shared out. `small` are the columns of VMs that a NUMA node is too small for.
    """

    most: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    rows: list[tuple[Terms, int]] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    gpu_classes: list[GpuClass] = field(default_factory=list)
    sets: list[tuple[frozenset[int], int]] = field(default_factory=list)
    uses: int | None = None
    asking: tuple[int, ...] = ()
    over: int | None = None
    small: set[int] = field(default_factory=set)

    def column(self, most: int, cost: float = 0.0) -> int:
        """Add a column, and return its number."""
        self.most.append(most)
        self.costs.append(cost)
        return len(self.most) - 1

    def row(self, terms: Sequence[tuple[int, float]], most: int) -> None:
        """Require that a sum is no more than a number; a repeated column counts twice."""
        sums: dict[int, float] = {}
        for column, weight in terms:
            sums[column] = sums.get(column, 0.0) + weight
        self.rows.append((tuple(sums.items()), most))

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
            self.asking,
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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A shape with its number, how many VMs have it, and the rank of the host for it."""

    number: int
    shape: Shape
    count: int
    rank: int


@dataclass(slots=True)
class BlockMaker:
    """Makes the block of one host. `book` knows the patterns of GPUs."""

    host: HostState
    book: PatternBook
    block: HostBlock = field(default_factory=HostBlock)
    _shapes: dict[int, Shape] = field(default_factory=dict)

    def make(self, choices: Sequence[tuple[Wanted, int]], asking: Sequence[int], most_vms: int) -> HostBlock:
        """Model a host for the (shape, number of a variant) that it could take.

        `asking` are the numbers of those who ask for hosts that are kept free, this one among them.
        """
        for wanted, variant in choices:
            self._shapes[wanted.number] = wanted.shape
            self._choose(wanted, variant)
        if self.block.choices:
            self._memory()
            self._gpus()
            self._spread()
            self._slots()
            self._nics()
            self._nodes()
            self._keep_free(asking, most_vms)
        return self.block

    def _shape(self, choice: Choice) -> Shape:
        return self._shapes[choice.shape]

    def _variant(self, choice: Choice) -> Variant:
        shape = self._shape(choice)
        return shape.variants[choice.variant] if shape.variants else ()

    def _choose(self, wanted: Wanted, variant: int) -> None:
        """Add a column for each way to spread a VM over NUMA nodes."""
        shape, host = wanted.shape, self.host
        needs = shape.variants[variant] if shape.variants else ()
        most = min(shape.most_per_host or wanted.count, wanted.count)
        most = min(most, max(0, host.free_mib) // shape.memory_mib) if shape.memory_mib else most
        cost = 10_000.0 * host.cost + 1000.0 * wanted.rank + 100.0 * variant
        if len(shape.dynamic) > 1 and (fit := host.fit(shape)) is not None:
            cost += _UNLIKE * fit.unlike
        for seats in self._ways(shape, needs):
            nodes = nodes_of_seats(shape, seats)
            small = any(
                node.level(ceil(shape.cpus / len(nodes)), shape.memory_mib // len(nodes)) == 2
                for node in host.nodes
                if node.node_id in nodes
            )
            column = self.block.column(most, cost)
            if small:
                self.block.small.add(column)
            self.block.choices.append(Choice(wanted.number, variant, seats, column))

    def _ways(self, shape: Shape, needs: Variant) -> list[Seats]:
        """List the nodes that the vGPUs and devices of a VM could be of; one way where that is all one."""
        anywhere: Seats = (None,) * (len(needs) + len(shape.dynamic))
        is_near = any(need.near_gpu for need in shape.nics)
        if not is_near and (shape.numa is not NumaPolicy.FOLLOW_GPU or not self.host.nodes):
            return [anywhere]
        parts = [*self._vgpu_seats(needs), *self._device_seats(shape)]
        if any(not ways for _, ways in parts):
            return [anywhere]
        count = 1
        for _, ways in parts:
            count *= len(ways)
        if count > _MOST_SEATS:
            return [anywhere]
        found: dict[Seats, None] = {}
        for chosen in product(*(ways for _, ways in parts)):
            seats: list[int | None] = list(anywhere)
            for (places, _), nodes in zip(parts, chosen, strict=True):
                for place, node in zip(places, nodes, strict=True):
                    seats[place] = node
            found[tuple(seats)] = None
        return list(found)

    def _vgpu_seats(self, needs: Variant) -> Iterator[tuple[list[int], list[Seats]]]:
        """Yield, for vGPUs that go together, their places in the variant and the nodes they could have."""
        host, parts = self.host, dict[object, list[int]]()
        for place, need in enumerate(needs):
            is_peer = need.peers is not None and has_group_api(host.host)
            parts.setdefault(("peers", need.peers) if is_peer else need, []).append(place)
        for key, places in parts.items():
            need = needs[places[0]]
            if isinstance(key, tuple):
                sets = host.free_sets(need, len(places), host.gpus)
                yield places, list(dict.fromkeys(self._profile(members) for members in sets))
                continue
            nodes = {gpu.node for gpu in host.gpus if gpu.refuse(need) is None}
            yield places, list(combinations_with_replacement(_sorted(nodes), len(places)))

    def _profile(self, members: frozenset[int]) -> Seats:
        return tuple(self.host.gpus[index].node for index in sorted(members))

    def _device_seats(self, shape: Shape) -> Iterator[tuple[list[int], list[Seats]]]:
        first = len(shape.variants[0]) if shape.variants else 0
        parts: dict[DeviceEntry, list[int]] = {}
        for place, need in enumerate(shape.dynamic):
            parts.setdefault(need, []).append(first + place)
        for need, places in parts.items():
            nodes = {slot.pci.numa_node for slot in self.host.free_slots() if is_match(slot, need)}
            yield places, list(combinations_with_replacement(_sorted(nodes), len(places)))

    def _memory(self) -> None:
        """Count memory in the largest unit of which all VMs are multiples: less than one is of no use."""
        sizes = {one.column: self._shape(one).memory_mib for one in self.block.choices}
        unit = gcd(*sizes.values()) or 1
        self.block.over, step = self.block.column(0), max(1, _GIB // unit)
        terms = [(column, float(mib // unit)) for column, mib in sizes.items()]
        self.block.row([*terms, (self.block.over, -float(step))], max(0, self.host.free_mib) // unit)

    def _gpus(self) -> None:
        """Limit the VMs' requests for GPUs, by node, to the supply of the GPUs' patterns."""
        asked: dict[PatternItem, dict[int | None, list[tuple[int, float]]]] = {}
        joined: dict[tuple[str, int], dict[Seats, list[tuple[int, float]]]] = {}
        peers: dict[tuple[str, int], VgpuNeed] = {}
        for choice in self.block.choices:
            for item, node, count in self._items_of(choice):
                asked.setdefault(item, {}).setdefault(node, []).append((choice.column, float(count)))
            for need, seats in self._peers_of(choice):
                key = (need.name, len(seats))
                joined.setdefault(key, {}).setdefault(seats, []).append((choice.column, 1.0))
                peers[key] = need
        taken = self._peer_sets(joined, peers)
        supply = self._patterns(taken)
        for item, by_node in asked.items():
            given = supply.get(item, {})
            for node, terms in by_node.items() if set(by_node) != {None} else ():
                if node is not None:
                    self.block.row([*terms, *given.get(node, ())], 0)
            self.block.row([*_joined(by_node), *_joined(given)], 0)

    def _items_of(self, choice: Choice) -> Iterator[tuple[PatternItem, int | None, int]]:
        """Yield a VM's requests for single GPUs, of which node, and how many of each."""
        shape, variant = self._shape(choice), self._variant(choice)
        line = line_apart(shape)
        counts: dict[tuple[VgpuNeed, int | None], int] = {}
        for need, node in zip(variant, choice.seats, strict=False):
            if need.peers is None or not has_group_api(self.host.host):
                counts[need, node] = counts.get((need, node), 0) + 1
        for (need, node), count in counts.items():
            yield PatternItem(need, line), node, count

    def _peers_of(self, choice: Choice) -> Iterator[tuple[VgpuNeed, Seats]]:
        """Yield the groups of NVLink peers of a VM: one of their needs, and the nodes of all of them."""
        if not has_group_api(self.host.host):
            return
        variant = self._variant(choice)
        for number in dict.fromkeys(need.peers for need in variant if need.peers is not None):
            members = [place for place, need in enumerate(variant) if need.peers == number]
            yield variant[members[0]], tuple(choice.seats[place] for place in members)

    def _peer_sets(
        self,
        joined: Mapping[tuple[str, int], Mapping[Seats, Sequence[tuple[int, float]]]],
        peers: Mapping[tuple[str, int], VgpuNeed],
    ) -> dict[int, list[int]]:
        """Add a column for each set of peers, and return, by GPU, those of the sets that it is in."""
        taken: dict[int, list[int]] = {}
        for key, by_seats in joined.items():
            columns: dict[Seats, list[tuple[int, float]]] = {}
            for members in self.host.free_sets(peers[key], key[1], self.host.gpus):
                column = self.block.column(1, 10.0 * len(members))
                columns.setdefault(self._profile(members), []).append((column, -1.0))
                self.block.sets.append((members, column))
                for gpu in members:
                    taken.setdefault(gpu, []).append(column)
            for seats, terms in by_seats.items():
                if len(by_seats) > 1 and any(node is not None for node in seats):
                    self.block.row([*terms, *columns.get(seats, ())], 0)
            self.block.row([*_joined(by_seats), *_joined(columns)], 0)
        for gpu in sorted(taken):
            self.block.row([(column, 1.0) for column in taken[gpu]], 1)
        return taken

    def _patterns(
        self, taken: Mapping[int, Sequence[int]]
    ) -> dict[PatternItem, dict[int | None, list[tuple[int, float]]]]:
        """Add the possible contents of the host's GPUs; a GPU of a group of peers holds nothing else."""
        alike: dict[tuple[object, ...], list[int]] = {}
        for number, gpu in enumerate(self.host.gpus):
            alike.setdefault(gpu.signature(), []).append(number)
        supply: dict[PatternItem, dict[int | None, list[tuple[int, float]]]] = {}
        for gpus in alike.values():
            first = self.host.gpus[gpus[0]]
            patterns = self.book.of(first)
            cost = 10.0 if first.is_idle else 0.1
            columns = tuple(self.block.column(len(gpus), cost) for _ in patterns)
            self.block.gpu_classes.append(GpuClass(tuple(gpus), patterns, columns))
            used = [(column, 1.0) for column in columns]
            used += [(column, 1.0) for gpu in gpus for column in taken.get(gpu, ())]
            if used:
                self.block.row(used, len(gpus))
            for column, pattern in zip(columns, patterns, strict=True):
                for item, count in zip(self.book.items, pattern, strict=True):
                    if count:
                        given = supply.setdefault(item, {}).setdefault(first.node, [])
                        given.append((column, -float(count)))
        return supply

    def _spread(self) -> None:
        for is_host in (True, False):
            lines: dict[str, list[Choice]] = {}
            for choice in self.block.choices:
                shape = self._shape(choice)
                if shape.most_per_host if is_host else shape.spread is Spread.NUMA and shape.must:
                    lines.setdefault(shape.line, []).append(choice)
            for line, chosen in lines.items():
                most = min(self._shape(choice).most_per_host for choice in chosen)
                room = most - self.host.residents.get(line, 0) if is_host else self._free_nodes(line, chosen)
                if room is not None:
                    self.block.row([(choice.column, 1.0) for choice in chosen], max(0, room))
                for node in self.host.nodes if not is_host else ():
                    own = [
                        one for one in chosen if node.node_id in nodes_of_seats(self._shape(one), one.seats)
                    ]
                    if own:
                        free = 0 if self.host.is_on_node(line, node.node_id) else 1
                        self.block.row([(choice.column, 1.0) for choice in own], free)

    def _free_nodes(self, line: str, chosen: Sequence[Choice]) -> int | None:
        """Count the NUMA nodes without a VM of a line that one could have, None where it may have none."""
        host = self.host
        nodes: set[int | None] = {node.node_id for node in host.nodes}
        policies = {self._shape(choice).numa for choice in chosen}
        if policies == {NumaPolicy.FOLLOW_GPU} and all(self._variant(choice) for choice in chosen):
            boards = {need.board_key for choice in chosen for need in self._variant(choice)}
            nodes = {gpu.node for gpu in host.gpus if gpu.board_key in boards and gpu.obstacle is None}
        if not host.nodes or None in nodes or NumaPolicy.OFF in policies:
            return None
        return sum(node is not None and not host.is_on_node(line, node) for node in nodes)

    def _slots(self) -> None:
        """Let every function that is passed through go to one VM: the named ones, and those that match."""
        wanted = [one for one in self.block.choices if self._shape(one).fixed or self._shape(one).dynamic]
        if not wanted:
            return
        needs = list(dict.fromkeys(need for one in wanted for need in self._shape(one).dynamic))
        alike: dict[tuple[tuple[bool, ...], int | None], list[str]] = {}
        for slot in self.host.free_slots():
            suits = tuple(is_match(slot, need) for need in needs)
            alike.setdefault((suits, slot.pci.numa_node), []).append(slot.pci.pci_id)
        flow: dict[int, dict[int | None, list[tuple[int, float]]]] = {
            place: {} for place in range(len(needs))
        }
        for (suits, node), addresses in alike.items():
            used = [
                (one.column, float(len(set(self._shape(one).fixed) & set(addresses))))
                for one in wanted
                if set(self._shape(one).fixed) & set(addresses)
            ]
            for place in range(len(needs)):
                if suits[place]:
                    column = self.block.column(len(addresses))
                    flow[place].setdefault(node, []).append((column, -1.0))
                    used.append((column, 1.0))
            self.block.row(used, len(addresses))
        for place, need in enumerate(needs):
            by_node: dict[int | None, list[tuple[int, float]]] = {}
            for one in wanted:
                shape = self._shape(one)
                seats = one.seats[len(one.seats) - len(shape.dynamic) :]
                for asked, node in zip(shape.dynamic, seats, strict=True):
                    if asked == need:
                        by_node.setdefault(node, []).append((one.column, 1.0))
            for node, terms in by_node.items():
                if node is not None:
                    self.block.row([*terms, *flow[place].get(node, ())], 0)
            self.block.row([*_joined(by_node), *_joined(flow[place])], 0)
        for address in dict.fromkeys(address for one in wanted for address in self._shape(one).fixed):
            own = [(one.column, 1.0) for one in wanted if address in self._shape(one).fixed]
            self.block.row(own, 1)

    def _nics(self) -> None:
        """Let every function go to one NIC, and one that must be near be of a node of the VM's GPUs."""
        stock = self.host.stock
        nodes = nodes_of(stock)
        asked: dict[tuple[NicNeed, frozenset[int]], list[tuple[int, float]]] = {}
        for choice in self.block.choices:
            shape = self._shape(choice)
            near = self._near(choice)
            for need in dict.fromkeys(shape.nics):
                bound = near if need.near_gpu else frozenset[int]()
                terms = asked.setdefault((need, bound), [])
                terms.append((choice.column, float(shape.nics.count(need))))
        given: dict[str, list[int]] = {}
        room: dict[str, int] = {}
        for (need, near), terms in asked.items():
            columns = []
            for pci_id, free in nic_options(need, stock):
                is_far = bool(near) and nodes.get(pci_id) is not None and nodes[pci_id] not in near
                if is_far and need.must_be_near:
                    continue
                column = self.block.column(free, _FAR if is_far else 0.0)
                columns.append((column, -1.0))
                given.setdefault(pci_id, []).append(column)
                room[pci_id] = max(free, room.get(pci_id, 0))
            self.block.row([*terms, *columns], 0)
        for pci_id, own in given.items():
            self.block.row([(column, 1.0) for column in own], room[pci_id])

    def _near(self, choice: Choice) -> frozenset[int]:
        """Return the nodes of a VM's GPUs; empty where one is not known."""
        fixed = self.host.gpu_nodes((), self._shape(choice).fixed)
        nodes = [*choice.seats, *fixed]
        return frozenset(node for node in nodes if node is not None) if None not in nodes else frozenset()

    def _nodes(self) -> None:
        """Price the VMs' requests to a node beyond its cores and its memory: it costs speed, and no place."""
        for node in self.host.nodes:
            cores: list[tuple[int, float]] = []
            memory: list[tuple[int, float]] = []
            for choice in self.block.choices:
                shape = self._shape(choice)
                nodes = self._tied(choice)
                if node.node_id in nodes:
                    cores.append((choice.column, float(ceil(shape.cpus / len(nodes)))))
                    memory.append((choice.column, float(shape.memory_mib // len(nodes))))
            if cores and sum(self.block.most[column] for column, _ in cores):
                self._price(cores, node.free_cores, 1.0)
                self._price(memory, node.free_mib, float(_GIB))

    def _tied(self, choice: Choice) -> frozenset[int]:
        shape = self._shape(choice)
        return nodes_of_seats(shape, (*choice.seats, *self.host.gpu_nodes((), shape.fixed)))

    def _price(self, terms: Sequence[tuple[int, float]], free: int, unit: float) -> None:
        over = self.block.column(1_000_000, _OVER)
        self.block.row([*terms, (over, -unit)], max(0, free))

    def _keep_free(self, asking: Sequence[int], most_vms: int) -> None:
        if not asking or self.host.is_in_use:
            return
        own = [(one.column, 1.0) for one in self.block.choices if self._shape(one).has_gpus]
        if own:
            self.block.uses = self.block.column(1)
            self.block.asking = tuple(asking)
            self.block.row([*own, (self.block.uses, -float(most_vms))], 0)


def line_apart(shape: Shape) -> str:
    """Name the line of which no GPU takes two VMs, "" where that does not matter."""
    return shape.line if shape.spread is Spread.GPUS and shape.must else ""


def nodes_of_seats(shape: Shape, seats: Sequence[int | None]) -> frozenset[int]:
    """Return the NUMA nodes that a VM is tied to by its GPUs' nodes; empty where that is open."""
    if shape.numa is NumaPolicy.NODE:
        return frozenset(shape.numa_nodes)
    if shape.numa is NumaPolicy.OFF or None in seats:
        return frozenset()
    return frozenset(node for node in seats if node is not None)


def _sorted(nodes: set[int | None]) -> list[int | None]:
    return sorted(nodes, key=lambda node: -1 if node is None else node)


def _joined(parts: Mapping[Any, Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    return [term for terms in parts.values() for term in terms]
