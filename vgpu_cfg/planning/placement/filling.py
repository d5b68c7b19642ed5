"""From how many VMs hosts of a kind get together to what each of them gets, and which of its GPUs.

Many hosts are halved first, each half with room enough by its counts; of few each is a program of its own
beside the others. What comes out is tried by the rules of `HostState` and, where its VMs are started, by the
game of starts; a content that does not work is forbidden to all, and they are filled anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field

from vgpu_cfg.late_dataclasses import dataclass
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.gpu_assignment import Assignment, HostShare, assign_gpus
from vgpu_cfg.planning.placement.host_block import HostBlock
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.kinds import Counts, Kinds, Part, add_block, count_vms
from vgpu_cfg.planning.placement.milp import Program
from vgpu_cfg.planning.placement.power_order import Start
from vgpu_cfg.planning.placement.start_queues import StartOrder, order_starts

_FEW = 6
"""So many hosts are filled at once; more are halved."""
_MOST_TRIES = 24
"""How often hosts are filled anew where contents turn out not to work."""
_MOST_FORBIDDEN = 8
"""So many contents are forbidden at a time, the last ones found."""
_GIB = 1024
_MOST_POSITIONS = 1_000
"""Starts that take more to decide count as not certain here: there are other contents."""

Values = tuple[int, ...]
"""What one host gets: the values of its block's columns."""
Filled = tuple[HostState, dict[str, Fit]]
Refused = list[tuple[tuple[int, ...], int]]
"""Columns of which the sum is a number; a host must not have all such sums again."""


@dataclass(slots=True)
class Filler:
    """Fills parts with `waiting`, the VMs of each shape that have no place yet."""

    kinds: Kinds
    most_nodes: int
    waiting: list[list[Demand]]
    filled: dict[int, Filled] = field(default_factory=dict)
    _known: dict[tuple[int, tuple[int, ...]], Refused | None] = field(default_factory=dict)

    def fill(self, part: Part, counts: Counts) -> bool:
        """Fill the hosts of a part, and say whether that could be done."""
        contents = self._contents(len(part.hosts), self.kinds.blocks[part.hosts[0]], counts)
        if contents is None:
            return False
        contents = self._shared_anew(part.hosts[0], contents)
        return all(self._put(index, values) for index, values in zip(part.hosts, contents, strict=True))

    def _contents(self, hosts: int, block: HostBlock, counts: Counts) -> list[Values] | None:
        """Find what each of so many hosts of a kind gets, None where that was not found."""
        found: list[Values] = []
        left = counts
        while hosts - len(found) > _FEW:
            *some, rest = self._solved(block, [1] * _FEW + [hosts - len(found) - _FEW], left) or [()]
            if not some:
                break
            found += some
            left = count_vms(block, rest)
        last = self._solved(block, [1] * (hosts - len(found)), left) if hosts - len(found) <= _FEW else []
        return [*found, *last] if last else self._solved(block, [1] * hosts, counts) or None

    def _solved(
        self, block: HostBlock, sizes: Sequence[int], counts: Counts, refused: Sequence[Refused] = ()
    ) -> list[Values]:
        """Share VMs out to so many hosts each, empty where that was not found."""
        program = Program()
        offsets = [add_block(program, block, size) for size in sizes]
        self._share(program, block, counts, offsets)
        if sizes[-1] > 1:
            self._keep_slack(program, block, sizes, offsets)
        for offset in offsets:
            for why in refused:
                _forbid(program, block, offset, why)
        found = program.solve(most_nodes=self.most_nodes, gap=0.1)
        return [found.values[offset : offset + len(block.most)] for offset in offsets] if found.values else []

    def _keep_slack(
        self, program: Program, block: HostBlock, sizes: Sequence[int], offsets: Sequence[int]
    ) -> None:
        """Leave as much memory a host to the hosts that are counted together as to the others."""
        slack = program.variable(1_000_000, cost=-1.0)
        for own in (range(len(sizes) - 1), range(len(sizes) - 1, len(sizes))):
            terms = [
                (offsets[place] + choice.column, self.kinds.shapes[choice.shape].memory_mib / _GIB)
                for place in own
                for choice in block.choices
            ]
            count = sum(sizes[place] for place in own)
            free_mib = block.free_mib
            program.row([*terms, (slack, float(count))], most=count * free_mib / _GIB)

    def _shared_anew(self, first: int, contents: Sequence[Values]) -> list[Values]:
        """Share out anew what stands on a host whose content does not work and on a few others."""
        block, found = self.kinds.blocks[first], list(contents)
        refused: list[Refused] = []
        for turn in range(_MOST_TRIES):
            bad = [place for place, values in enumerate(found) if self._check(first, values)]
            if not bad:
                break
            others = [place for place in range(len(found)) if place != bad[0]]
            start = 2 * turn % max(1, len(others))
            own = [bad[0], *(others[start:] + others[:start])[: 1 + turn % 2]]
            refused += [
                why for place in own if (why := self._check(first, found[place])) and why not in refused
            ]
            counts: Counts = {}
            for place in own:
                for key, count in count_vms(block, found[place]).items():
                    counts[key] = counts.get(key, 0) + count
            anew = self._solved(block, [1] * len(own), counts, refused[-_MOST_FORBIDDEN:])
            refused += [why for values in anew if (why := self._check(first, values)) and why not in refused]
            before = sum(place in bad for place in own)
            if anew and sum(self._check(first, values) is not None for values in anew) < before:
                for place, values in zip(own, anew, strict=True):
                    found[place] = values
        return found

    def _share(self, program: Program, block: HostBlock, counts: Counts, offsets: Sequence[int]) -> None:
        columns: dict[tuple[int, int], list[tuple[int, float]]] = {}
        for choice in block.choices:
            terms = columns.setdefault((choice.shape, choice.variant), [])
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
            del self.waiting[choice.shape][: values[choice.column]]
        return True

    def _alike_starts(self, block: HostBlock, values: Values, board_key: str) -> Refused:
        """Return the numbers of vGPUs, by variant, of a board whose VMs start in no order that is certain."""
        columns: dict[object, list[int]] = {}
        for choice in block.choices:
            variant = self.kinds.shapes[choice.shape].variants[choice.variant : choice.variant + 1]
            if variant and variant[0][0].board_key == board_key:
                columns.setdefault(variant[0], []).append(choice.column)
        return [(tuple(own), sum(values[column] for column in own)) for own in columns.values()]

    def _share_of(self, block: HostBlock, values: Values) -> HostShare:
        share, taken = HostShare(), dict[int, int]()
        for choice in block.choices:
            count = values[choice.column]
            shape = self.kinds.shapes[choice.shape]
            first = taken.get(choice.shape, 0)
            taken[choice.shape] = first + count
            variant = shape.variants[choice.variant] if shape.variants else ()
            share.assignments += [
                Assignment(demand, variant, choice.seats)
                for demand in self.waiting[choice.shape][first : first + count]
            ]
        share.sets = [members for members, column in block.sets if values[column]]
        joined = {gpu for members in share.sets for gpu in members}
        for gpu_class in block.gpu_classes:
            free = [gpu for gpu in gpu_class.gpus if gpu not in joined]
            for pattern, column in zip(gpu_class.patterns, gpu_class.columns, strict=True):
                counts = dict(zip(self.kinds.book.items, pattern, strict=True))
                share.gpus += [(free.pop(0), counts) for _ in range(values[column])]
        return share


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
