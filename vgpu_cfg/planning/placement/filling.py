"""Turn the counts of VMs for hosts of a kind into each host's VMs, and their GPUs.

Hosts are given modes first, sets of patterns that start side by side. Then the patterns of GPUs are dealt out
like cards, and the places of VMs are one program; if that fails, patterns and VMs are one program. Memory
that a host has not costs there and is not forbidden, so that nearly full hosts get something soon. The result
is tried by the rules of `HostState` and, if its VMs are started, by the game of starts. A host that lacks
memory or whose content does not work is filled anew with a few others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.planning.capacity.gpu_state import VgpuNeed
from vgpu_cfg.planning.capacity.host_capacity import match_slots
from vgpu_cfg.planning.placement.demand import Demand, Variant
from vgpu_cfg.planning.placement.host_block import HostBlock
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.kinds import Counts, Kinds, Part, add_block, count_vms
from vgpu_cfg.planning.placement.milp import Program, Solution
from vgpu_cfg.planning.placement.patterns import PatternItem, stack
from vgpu_cfg.planning.placement.place import in_order
from vgpu_cfg.planning.placement.start_queues import ANY_MODE, Start, StartMode, StartOrder, order_starts

_DEALT_NODES = 1
"""If patterns are dealt, either the rest falls into place or another way is better."""

_MOST_TRIES = 60
"""How often hosts are filled anew where contents turn out not to work."""

_MOST_IN_VAIN = 5
"""After so many tries that helped nothing one host more is filled anew each time, two at first."""

_MOST_VAIN = 15
"""After this many tries in a row without an improvement, the rest is unchanged."""

_MOST_OVER = 1_000_000
"""So much memory that is not there may be asked of a host; it comes to about its GiB."""

_MOST_FORBIDDEN = 8
"""So many contents are forbidden at a time, the last ones found."""

_GIB = 1024

_MOST_POSITIONS = 1_000
"""Starts that take more to decide count as not certain here: there are other contents."""

Values = tuple[int, ...]
"""One host's share: the values of its block's columns."""

Filled = tuple[HostState, dict[str, Fit]]

Refused = list[tuple[tuple[int, ...], int]]
"""Columns of which the sum is a number; a host must not have all such sums again."""


@dataclass(frozen=True, slots=True)
class Group:
    """So many hosts of a mode, with their common share."""

    mode: StartMode
    hosts: int
    together: Values = ()


@dataclass(slots=True)
class Filler:
    """Fills parts with `waiting`, the VMs of each shape that have no place yet."""

    kinds: Kinds
    most_nodes: int
    waiting: list[list[Demand]]
    filled: dict[int, Filled] = field(default_factory=dict)
    _known: dict[tuple[int, tuple[int, ...]], Refused | None] = field(default_factory=dict)

    def fill(self, part: Part, together: Values) -> bool:
        """Fill the hosts of a part with their common share, and return whether that succeeded."""
        block = self.kinds.blocks[part.hosts[0]]
        anyhow = [Group(ANY_MODE, len(part.hosts), together)]
        for groups in (self._by_modes(part, together), anyhow):
            contents = self._shared(part, groups, count_vms(block, together))
            # An uncertain start order is a finding, and better than VMs without a place.
            if contents and not any(values[block.over] for values in contents):
                return all(
                    self._put(index, values) for index, values in zip(part.hosts, contents, strict=True)
                )
        return False

    def _shared(self, part: Part, groups: Sequence[Group], counts: Counts) -> list[Values]:
        """Share VMs out to the hosts of groups; empty where that fails, though memory may be too small."""
        modes = [group.mode for group in groups for _ in range(group.hosts)]
        contents = self._dealt(part.hosts, groups, counts) or self._solved(part.hosts, modes, counts)
        return self._exchanged(part.hosts, modes, contents) if contents else []

    def _by_modes(self, part: Part, together: Values) -> list[Group]:
        """Let as many hosts as can be keep to a mode; empty where no way was found, or there is one mode."""
        block, most = self.kinds.blocks[part.hosts[0]], len(part.hosts)
        modes = self.kinds.modes(part.hosts[0]) if most > 1 else []
        if not modes:
            return []
        program, choices = Program(), [*modes, ANY_MODE]
        sizes = [program.variable(most, cost=float(mode is ANY_MODE)) for mode in choices]
        program.row([(size, 1.0) for size in sizes], least=most, most=most)
        joined = self.kinds.joined(part)
        offsets = [add_block(program, joined, (size, most)) for size in sizes]
        mean = sum(gib * together[column] for column, gib in self._memory(block, 0)) / most
        for mode, offset, size in zip(choices, offsets, sizes, strict=True):
            mode.bind(program, block, offset, size)
            self._price_beyond(program, block, offset, size, mean)
        self._share(program, block, count_vms(block, together), offsets)
        found = program.solve(most_nodes=self.most_nodes).values
        return [
            Group(mode, found[size], found[offset : offset + len(block.most)])
            for mode, offset, size in zip(choices, offsets, sizes, strict=True)
            if found and found[size]
        ]

    def _dealt(self, hosts: Sequence[int], groups: Sequence[Group], counts: Counts) -> list[Values]:
        """Deal the patterns out to hosts like cards, then look which VMs go where; empty where that fails."""
        blocks = [self.kinds.blocks[index] for index in hosts]
        if blocks[0].sets or not groups:
            return []
        program, offsets, first = Program(), list[int](), 0
        for group in groups:
            own, first = blocks[first : first + group.hosts], first + group.hosts
            for block, hand in zip(own, deal(own, group), strict=True):
                offsets.append(_add_host(program, block))
                for gpu_class in block.gpu_classes:
                    for column in gpu_class.columns:
                        program.fix(offsets[-1] + column, hand.get(column, 0))
        self._share(program, blocks[0], counts, offsets)
        return _by_host(program.solve(most_nodes=_DEALT_NODES), blocks[0], offsets)

    def _solved(
        self,
        hosts: Sequence[int],
        modes: Sequence[StartMode],
        counts: Counts,
        refused: Sequence[Refused] = (),
    ) -> list[Values]:
        """Share VMs out to hosts that keep to their modes, empty where that was not found."""
        program, offsets = Program(), list[int]()
        for index, mode in zip(hosts, modes, strict=False):
            block = self.kinds.blocks[index]
            offsets.append(_add_host(program, block))
            mode.bind(program, block, offsets[-1])
            for why in refused:
                _forbid(program, block, offsets[-1], why)
        if not modes:
            return []
        block = self.kinds.blocks[hosts[0]]
        self._share(program, block, counts, offsets)
        return _by_host(program.solve(most_nodes=self.most_nodes, gap=0.1), block, offsets)

    def _memory(self, block: HostBlock, first: int) -> list[tuple[int, float]]:
        """Return the terms that sum up the memory, in GiB, of the VMs of a block at these variables."""
        return [(first + choice.column, choice.shape.memory_mib / _GIB) for choice in block.choices]

    def _price_beyond(self, program: Program, block: HostBlock, first: int, hosts: int, mean: float) -> None:
        """Price memory beyond the mean of a host, so that no mode's hosts are full while others have room."""
        over = program.variable(1_000_000, cost=1e-4)
        program.row([*self._memory(block, first), (hosts, -mean), (over, -1.0)], most=0)

    def _exchanged(
        self, hosts: Sequence[int], modes: Sequence[StartMode], contents: Sequence[Values]
    ) -> list[Values]:
        """Share out anew the content of a host that does not work and of a few others.

        A result that is no worse is kept: if all is nearly full, it may take several exchanges. Once all
        hosts have taken part in vain, and nothing more is forbidden, the next program would be the same.
        """
        block, found = self.kinds.blocks[hosts[0]], list(contents)
        refused: list[Refused] = []
        in_vain = 0
        for turn in range(_MOST_TRIES):
            bad = [place for place, values in enumerate(found) if not self._works(hosts[place], values)]
            if not bad or len(found) == 1 or in_vain == _MOST_VAIN:
                break
            worst, known = bad[turn % len(bad)], len(refused)
            others = [place for place in range(len(found)) if place != worst]
            beside = 1 + in_vain // _MOST_IN_VAIN
            start = beside * turn % len(others)
            own = [worst, *(others[start:] + others[:start])[:beside]]
            indexes, before = [hosts[place] for place in own], [found[place] for place in own]
            refused += self._refusals(indexes, before, refused)
            counts: Counts = {}
            for values in before:
                for key, count in count_vms(block, values).items():
                    counts[key] = counts.get(key, 0) + count
            anew = self._solved(indexes, [modes[place] for place in own], counts, refused[-_MOST_FORBIDDEN:])
            refused += self._refusals(indexes, anew, refused)
            now = self._faults(indexes, before)
            after = self._faults(indexes, anew) if anew else None
            in_vain = 0 if after and after < now else in_vain + 1
            if in_vain and len(own) == len(found) and len(refused) == known:
                break
            if after and after <= now:
                for place, values in zip(own, anew, strict=True):
                    found[place] = values
        return found

    def _works(self, index: int, values: Values) -> bool:
        return not values[self.kinds.blocks[index].over] and self._check(index, values) is None

    def _faults(self, hosts: Sequence[int], contents: Sequence[Values]) -> tuple[int, int]:
        """Return how much memory is missing, and how many contents do not work."""
        over = sum(values[self.kinds.blocks[hosts[0]].over] for values in contents)
        return over, sum(
            not self._works(index, values) for index, values in zip(hosts, contents, strict=True)
        )

    def _refusals(
        self, hosts: Sequence[int], contents: Sequence[Values], known: Sequence[Refused]
    ) -> Iterator[Refused]:
        """Yield what of contents that have memory must not come again."""
        for index, values in zip(hosts, contents, strict=False):
            if not values[self.kinds.blocks[index].over]:
                why = self._check(index, values)
                if why and why not in known:
                    yield why

    def _share(self, program: Program, block: HostBlock, counts: Counts, offsets: Sequence[int]) -> None:
        columns: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for choice in block.choices:
            terms = columns.setdefault((choice.number, choice.variant), [])
            terms += [(offset + choice.column, 1.0) for offset in offsets]
        for key, terms in columns.items():
            program.row(terms, least=counts.get(key, 0), most=counts.get(key, 0))

    def _check(self, index: int, values: Values) -> Refused | None:
        """Look whether a host can get its VMs; else return what of it must not come again."""
        key = (index, values)
        if key not in self._known:
            self._known[key] = self._refuse(index, values)
        return self._known[key]

    def _refuse(self, index: int, values: Values) -> Refused | None:
        host, block = self.kinds.hosts[index], self.kinds.blocks[index]
        share = self._share_of(block, values)
        if assign_gpus(host, share) is None:
            return [((choice.column,), values[choice.column]) for choice in block.choices]
        own = [
            Start(one.demand.vm, one.variant)
            for one in share.assignments
            if one.demand.starts and one.variant
        ]
        for found in order_starts(host, own, most_positions=_MOST_POSITIONS):
            if found.order is StartOrder.UNKNOWN:
                return self._alike_starts(block, values, found.board_key)
        return None

    def _put(self, index: int, values: Values) -> bool:
        """Give a host its VMs, and say whether that could be done."""
        block = self.kinds.blocks[index]
        filled = assign_gpus(self.kinds.hosts[index], self._share_of(block, values))
        if filled is None:
            return False
        self.filled[index] = filled
        for choice in block.choices:
            del self.waiting[choice.number][: values[choice.column]]
        return True

    def _alike_starts(self, block: HostBlock, values: Values, board_key: str) -> Refused:
        """Return the numbers of vGPUs, by variant, of a board whose VMs start in no order that is certain."""
        columns: dict[object, list[int]] = {}
        for choice in block.choices:
            if choice.needs and choice.needs[0].board_key == board_key:
                columns.setdefault(choice.needs, []).append(choice.column)
        return [(tuple(own), sum(values[column] for column in own)) for own in columns.values()]

    def _share_of(self, block: HostBlock, values: Values) -> HostShare:
        share, taken = HostShare(), dict[int, int]()
        for choice in block.choices:
            count = values[choice.column]
            first = taken.get(choice.number, 0)
            taken[choice.number] = first + count
            share.assignments += [
                Assignment(demand, choice.needs, choice.seats)
                for demand in self.waiting[choice.number][first : first + count]
            ]
        share.sets = [members for members, column in block.sets if values[column]]
        joined = {gpu for members in share.sets for gpu in members}
        for gpu_class in block.gpu_classes:
            free = [gpu for gpu in gpu_class.gpus if gpu not in joined]
            for pattern, column in zip(gpu_class.patterns, gpu_class.columns, strict=True):
                counts = dict(zip(self.kinds.book.items, pattern, strict=True))
                share.gpus += [(free.pop(0), counts) for _ in range(values[column])]
        return share


def _add_host(program: Program, block: HostBlock) -> int:
    """Add one host, of which memory that it has not costs; return the first variable.

    If all is nearly full, a sharing with a little too much here and there is soon found, and then mended.
    """
    first = add_block(program, block)
    program.open(first + block.over, _MOST_OVER, cost=1.0)
    return first


def deal(blocks: Sequence[HostBlock], group: Group) -> list[dict[int, int]]:
    """Deal the patterns of a group out to its hosts, evenly; return how often each has a column's."""
    hands: list[dict[int, int]] = [{} for _ in blocks]
    turn, places = 0, range(len(blocks))
    for number, gpu_class in enumerate(blocks[0].gpu_classes):
        room = [len(block.gpu_classes[number].gpus) for block in blocks]
        for column in sorted(gpu_class.columns, key=lambda one: one not in group.mode.once):
            for _ in range(group.together[column]):
                if column in group.mode.once:
                    place, turn = turn % len(blocks), turn + 1
                else:
                    place = max(places, key=lambda one: (room[one], -sum(hands[one].values()), -one))
                room[place] -= 1
                hands[place][column] = hands[place].get(column, 0) + 1
    return hands


def _by_host(found: Solution, block: HostBlock, offsets: Sequence[int]) -> list[Values]:
    """Cut a solution into the values of each host, empty where there is none."""
    return [found.values[first : first + len(block.most)] for first in offsets] if found.values else []


def _forbid(program: Program, block: HostBlock, first: int, refused: Refused) -> None:
    """Ask that one of these sums is another."""
    differs: list[tuple[int, float]] = []
    for columns, count in refused:
        most = sum(block.most[column] for column in columns)
        terms = [(first + column, 1.0) for column in columns]
        if count:
            less = program.variable(1)
            program.row([*terms, (less, float(most - count + 1))], most=most)
            differs.append((less, 1.0))
        if count < most:
            more = program.variable(1)
            program.row([*terms, (more, -float(count + 1))], least=0)
            differs.append((more, 1.0))
    program.row(differs, least=1)


@dataclass(frozen=True, slots=True)
class Assignment:
    """A VM for a host, with one of its variants; `seats` are the NUMA nodes of its vGPUs, then devices."""

    demand: Demand
    variant: Variant
    seats: tuple[int | None, ...]


@dataclass(slots=True)
class HostShare:
    """One host's share: VMs, sets of GPUs that become peers, and the most that each other GPU holds."""

    assignments: list[Assignment] = field(default_factory=list)
    sets: list[frozenset[int]] = field(default_factory=list)
    gpus: list[tuple[int, Mapping[PatternItem, int]]] = field(default_factory=list)


def assign_gpus(host: HostState, share: HostShare) -> tuple[HostState, dict[str, Fit]] | None:
    """Give every VM of a host its GPUs and devices; None if that is impossible like this.

    The simple way is kept unless the program's own answer has fewer unlike boards in a VM, or needs less of
    NUMA nodes, and of NICs that are far.
    """
    simple = _simply(host, share)
    if simple is not None and not any(_price(fit) != (0, 0, 0, 0) for fit in simple[1].values()):
        return simple
    found = [one for one in (simple, _as_counted(host, share)) if one is not None]
    return min(found, key=lambda one: _total(one[1].values()), default=None)


def _price(fit: Fit) -> tuple[int, int, int, int]:
    return (fit.unlike, int(fit.numa_level == 2), fit.far_nics, int(fit.numa_level == 1))


def _total(fits: Iterable[Fit]) -> tuple[int, ...]:
    return tuple(sum(figures) for figures in zip(*(_price(fit) for fit in fits), strict=True))


def _simply(host: HostState, share: HostShare) -> tuple[HostState, dict[str, Fit]] | None:
    """Let each VM take the best that is left, the hardest first."""
    state, fits = host.copy(), dict[str, Fit]()
    variants = {one.demand.vm: one.variant for one in share.assignments}
    for demand in in_order(one.demand for one in share.assignments):
        fit = next((one for one in state.fits(demand.shape) if one.variant == variants[demand.vm]), None)
        if fit is None:
            return None
        state.commit(demand, fit)
        fits[demand.vm] = fit
    return state, fits


def _as_counted(host: HostState, share: HostShare) -> tuple[HostState, dict[str, Fit]] | None:
    """Follow the counts of the solution to the letter."""
    left = [(gpu, dict(counts)) for gpu, counts in share.gpus]
    sets = list(share.sets)
    slots = _slots(host, share.assignments)
    if slots is None:
        return None
    chosen: dict[str, tuple[int, ...]] = {}
    held: dict[int, list[tuple[VgpuNeed, str, str]]] = {}
    assignments = sorted(
        share.assignments, key=lambda one: not any(nic.near_gpu for nic in one.demand.shape.nics)
    )
    for one in assignments:
        gpus = _gpus_for(host, one, left, sets)
        if gpus is None:
            return None
        chosen[one.demand.vm] = gpus
        for need, gpu in zip(one.variant, gpus, strict=True):
            held.setdefault(gpu, []).append((need, one.demand.vm, one.demand.line))
    state, fits = host.copy(), dict[str, Fit]()
    for gpu, vgpus in held.items():
        filled = stack(host.gpus[gpu], vgpus)
        if filled is None:
            return None
        state.gpus[gpu] = filled
    empty = host.copy()
    for one in assignments:
        demand = one.demand
        empty.nodes = state.nodes
        empty.holders, empty.given, empty.node_lines = state.holders, state.given, state.node_lines
        fit = empty.rated(demand.shape, one.variant, chosen[demand.vm], slots[demand.vm])
        if fit is None or not empty.keeps_apart(fit, demand.shape):
            return None
        state.settle(demand, fit)
        fits[demand.vm] = fit
    return state, fits


def _gpus_for(
    host: HostState,
    one: Assignment,
    left: list[tuple[int, dict[PatternItem, int]]],
    sets: list[frozenset[int]],
) -> tuple[int, ...] | None:
    shape = one.demand.shape
    gpus: list[int] = []
    joined: dict[int | None, list[int]] = {}
    for need, node in zip(one.variant, one.seats, strict=False):
        if host.is_grouped(need):
            if need.peers not in joined:
                size = sum(other.peers == need.peers for other in one.variant)
                members = next(
                    (
                        members
                        for members in sets
                        if len(members) == size
                        and host.gpus[min(members)].board_key == need.board_key
                        and (node is None or host.gpus[min(members)].node == node)
                    ),
                    None,
                )
                if members is None:
                    return None
                sets.remove(members)
                joined[need.peers] = sorted(members)
            gpus.append(joined[need.peers].pop(0))
            continue
        item = PatternItem(need, shape.line_apart)
        able = [entry for entry in left if entry[1].get(item, 0) > 0]
        found = next((entry for entry in able if node in (None, host.gpus[entry[0]].node)), None)
        if found is None:
            return None
        found[1][item] -= 1
        gpus.append(found[0])
    return tuple(gpus)


def _slots(host: HostState, assignments: Sequence[Assignment]) -> dict[str, tuple[str, ...]] | None:
    """Return the functions that each VM is passed through, None where they do not suffice.

    Those of a node are given to VMs that are to have them there before the others are.
    """
    given = {one.demand.vm: list(one.demand.shape.fixed) for one in assignments}
    taken = {address for addresses in given.values() for address in addresses}
    requests: dict[int | None, list[tuple[str, DeviceEntry]]] = {}
    for one in assignments:
        seats = one.seats[len(one.variant) :]
        for need, node in zip(one.demand.shape.dynamic, seats, strict=True):
            requests.setdefault(node, []).append((one.demand.vm, need))
    for node in sorted(requests, key=lambda one: (one is None, one)):
        free = [
            slot
            for slot in host.free_slots()
            if slot.pci.pci_id not in taken and node in (None, slot.pci.numa_node)
        ]
        matched = match_slots(free, [need for _, need in requests[node]])
        if matched is None:
            return None
        for (vm, _), address in zip(requests[node], matched, strict=True):
            given[vm].append(address)
            taken.add(address)
    return {vm: tuple(addresses) for vm, addresses in given.items()}
