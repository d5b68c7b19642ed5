"""Which hosts are of a kind, and the integer program that counts VMs by kind of host.

Hosts of a kind have blocks that differ in amounts only, so no solution is lost where they are counted
together: a kind has the room of its hosts, and a placement of all VMs is one of the counts. The other way
does not hold always, so counts are filled into hosts one after the other (`filling`), and where that fails
some hosts are counted by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_block import BlockKey, BlockMaker, HostBlock, Wanted
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.milp import Program
from vgpu_cfg.planning.placement.patterns import PatternBook, PatternItem
from vgpu_cfg.planning.placement.place import in_order
from vgpu_cfg.planning.placement.start_queues import StartMode, find_modes

_COUNTS = 1000
"""How many VMs are left counts before which they are: of two, the harder one gets the place."""
_STAYS_WEIGHT = 3
"""A VM that exists is left without a place last."""
_TOO_SMALL = 400.0
"""The cost of a NUMA node that is too small for its VM."""
_TOO_LITTLE = 0.5
"""A bound above it says that some VM has no place, whatever the rest; one VM costs much more."""

Counts = dict[tuple[int, int], int]
"""How many VMs, by the number of their shape and of their variant."""


@dataclass(frozen=True, slots=True)
class Part:
    """Hosts of a kind, by index, that are counted together."""

    hosts: tuple[int, ...]

    def split(self) -> list[Part]:
        """Count half of the hosts one by one."""
        alone = (len(self.hosts) + 1) // 2
        rest = [Part(self.hosts[alone:])] if self.hosts[alone:] else []
        return [*(Part((index,)) for index in self.hosts[:alone]), *rest]


@dataclass(slots=True)
class KindProgram:
    """A program over parts; `offsets` are the variables of each part's first column, `unplaced` by shape."""

    program: Program
    parts: Sequence[Part]
    offsets: list[int]
    unplaced: list[int]


@dataclass(slots=True)
class Kinds:
    """The blocks of all hosts that could take a VM, and the hosts of each kind."""

    hosts: Sequence[HostState]
    demands: Sequence[Demand]
    groups: dict[Shape, list[Demand]] = field(default_factory=dict)
    shapes: list[Shape] = field(default_factory=list)
    blocks: dict[int, HostBlock] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    book: PatternBook = field(default_factory=lambda: PatternBook(()))
    _asking: list[tuple[tuple[tuple[int, int], ...], int]] = field(default_factory=list)
    _modes: dict[BlockKey, list[StartMode]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for demand in sorted(in_order(self.demands), key=lambda one: not one.stays):
            self.groups.setdefault(demand.shape, []).append(demand)
        self.shapes = list(self.groups)
        asking = {(shape.hosts, shape.keep_free): None for shape in self.shapes if shape.keep_free}
        self._asking = list(asking)
        possible: dict[int, list[Wanted]] = {}
        items: dict[PatternItem, None] = {}
        for number, shape in enumerate(self.shapes):
            for index, rank in shape.hosts:
                host, count = self.hosts[index], len(self.groups[shape])
                for variant in self._variants(host, shape):
                    possible.setdefault(index, []).append(Wanted(number, shape, variant, count, rank))
                    single = (need for need in shape.needs(variant) if not host.is_grouped(need))
                    items |= dict.fromkeys(PatternItem(need, shape.line_apart) for need in single)
        self.book = PatternBook(tuple(items))
        kinds: dict[BlockKey, list[int]] = {}
        for index, choices in possible.items():
            is_asked = any(index in dict(ranked) for ranked, _ in self._asking)
            maker = BlockMaker(self.hosts[index], self.book)
            self.blocks[index] = maker.make(choices, len(self.demands) if is_asked else None)
            kinds.setdefault(self.blocks[index].key(), []).append(index)
        for indexes in kinds.values():
            # Which of them are used at all is asked host by host.
            is_single = self.blocks[indexes[0]].uses is not None
            self.parts += [Part((one,)) for one in indexes] if is_single else [Part(tuple(indexes))]

    @property
    def is_whole(self) -> bool:
        """Whether everything that could be is in the program."""
        return self.book.is_whole

    @property
    def is_exact(self) -> bool:
        """Whether the program allows everything that is allowed, so that it proves.

        Two vGPUs of one VM may share a GPU if VMs of the line may not, which a pattern does not show.
        """
        return not any(
            shape.spread is Spread.GPUS and shape.must and any(len(one) > 1 for one in shape.variants)
            for shape in self.shapes
        )

    def _variants(self, host: HostState, shape: Shape) -> Iterator[int]:
        """Yield the variants, by number, with which a host could take a VM at all."""
        refusals = (host.refuse_host, host.refuse_slots, host.refuse_nics)
        codes = {refuse(shape) for refuse in refusals}
        # Free memory is an amount, in which hosts of a kind may differ.
        if not codes <= {None, Code.HOST_MEMORY}:
            return
        for number, variant in enumerate(shape.variants or ((),)):
            if host.refuse_variant(variant) is None and all(map(host.is_creatable, variant)):
                yield number

    def joined(self, part: Part) -> HostBlock:
        """Return the block of a part's hosts together."""
        first, *others = (self.blocks[index] for index in part.hosts)
        return first.joined_with(others)

    def modes(self, index: int) -> list[StartMode]:
        """Return the modes of a host, found once for its kind."""
        key = self.blocks[index].key()
        if key not in self._modes:
            self._modes[key] = find_modes(self.hosts[index], self.blocks[index], self.book.items)
        return self._modes[key]

    def program(self, parts: Sequence[Part]) -> KindProgram:
        """Make the program that leaves as few VMs without a place as can be."""
        program = Program()
        made = KindProgram(program, parts, [], [])
        columns: list[list[tuple[int, float]]] = [[] for _ in self.shapes]
        for part in parts:
            block = self.blocks[part.hosts[0]]
            made.offsets.append(add_block(program, self.joined(part)))
            for choice in block.choices:
                columns[choice.number].append((made.offsets[-1] + choice.column, 1.0))
        for place, (group, terms) in enumerate(zip(self.groups.values(), columns, strict=True)):
            weight = _COUNTS * (_STAYS_WEIGHT if group[0].stays else 1) + 1 - place / len(self.groups)
            unplaced = program.variable(len(group), cost=weight)
            made.unplaced.append(unplaced)
            program.row([*terms, (unplaced, 1.0)], least=len(group), most=len(group))
        for ranked, count in self._asking:
            candidates = {index for index, _ in ranked}
            already = sum(self.hosts[index].is_in_use for index in candidates)
            uses = [
                (offset + block.uses, 1.0)
                for part, offset in zip(parts, made.offsets, strict=True)
                if (block := self.blocks[part.hosts[0]]).uses is not None and part.hosts[0] in candidates
            ]
            program.row(uses, most=max(0, len(candidates) - count - already))
        return made

    def costs(self, made: KindProgram) -> Iterator[tuple[int, float]]:
        """Yield what counts among placements of equally many VMs."""
        for part, offset in zip(made.parts, made.offsets, strict=True):
            block = self.blocks[part.hosts[0]]
            for column, cost in enumerate(block.costs):
                yield offset + column, cost
            for choice in block.choices:
                small = _TOO_SMALL if choice.is_small else 0.0
                yield offset + choice.column, block.costs[choice.column] + small + 0.001 * part.hosts[0]

    def values(self, made: KindProgram, values: Sequence[int]) -> list[tuple[int, ...]]:
        """Return the values of each part's block."""
        blocks = [self.blocks[part.hosts[0]] for part in made.parts]
        return [
            tuple(values[offset : offset + len(block.most)])
            for block, offset in zip(blocks, made.offsets, strict=True)
        ]

    def has_vms(self, part: Part, values: Sequence[int]) -> bool:
        """Whether a part gets any VM."""
        return any(values[choice.column] for choice in self.blocks[part.hosts[0]].choices)

    def least_left(self, bound: float) -> int:
        """Return how many VMs at least have no place, by a bound of the program's cost."""
        heaviest = _COUNTS * (_STAYS_WEIGHT if any(one.stays for one in self.demands) else 1) + 1
        return ceil((bound - _TOO_LITTLE) / heaviest) if bound > _TOO_LITTLE else 0


def add_block(program: Program, block: HostBlock, hosts: tuple[int, int] | None = None) -> int:
    """Add the columns and rows of one host, or of several joined ones; return the first variable.

    With `hosts`, a variable and a number, the rows have room for that many of so many hosts.
    """
    first = program.size
    for most in block.most:
        program.variable(most)
    for terms, most in block.rows:
        shifted = [(first + column, weight) for column, weight in terms]
        if hosts is None:
            program.row(shifted, most=most)
        else:
            program.row([*shifted, (hosts[0], -most / hosts[1])], most=0)
    return first


def count_vms(block: HostBlock, values: Sequence[int]) -> Counts:
    """Count the VMs of each shape and variant in the values of a block's columns."""
    counts: Counts = {}
    for choice in block.choices:
        if number := values[choice.column]:
            key = (choice.number, choice.variant)
            counts[key] = counts.get(key, 0) + number
    return counts
