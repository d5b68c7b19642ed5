"""The order of starting one host's VMs so that none is stranded by the GPUs that ESXi gives the others.

Three ways: by size, the largest first; one by one, the next chosen by the result of those before; or none
that is certain, which is a finding.

A host can have patterns of GPUs side by side if its VMs start for any choice of ESXi's. Two patterns go
together if twice each, on four GPUs, start for certain: small games that represent the large one. Of a MIG
host with 4g+3g, a GPU of 2g and 1g alone would strand a 4g's partner. A mode is a largest set of patterns
that all go together; a host that keeps to one is nearly always startable.

Large vGPUs start first: small ones that are spread over all GPUs first would lock them to their size. Policy
`performance` takes the GPU with the fewest vGPUs, `consolidation` the fullest; on MIG GPUs one is filled
before the next (field report by Frank Denneman). That ESXi chooses like this on every release is not proven.

Belief: first-3g-instance-at-slice-4, vgpus-follow-assignment-policy, mig-gpus-fill-one-by-one,
starts-within-a-gpu.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import lru_cache

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, PowerOnVm
from vgpu_cfg.changes.plan import GpuLoad, StartQueue
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy
from vgpu_cfg.planning.capacity.gpu_state import GpuState, Held, VgpuNeed, needs_of
from vgpu_cfg.planning.capacity.topology import has_group_api
from vgpu_cfg.planning.placement.demand import Variant, counted_names
from vgpu_cfg.planning.placement.host_block import HostBlock
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.milp import Program
from vgpu_cfg.planning.placement.patterns import PatternItem
from vgpu_cfg.planning.placement.start_search import MOST_POSITIONS, SearchTooLarge, StartSearch, start_size


@dataclass(frozen=True, slots=True)
class Start:
    """A VM with vGPUs that the plan powers on."""

    vm: str
    variant: Variant

    @property
    def size(self) -> tuple[int, int, int]:
        """Return the sort key of starts: NVLink peers, then the memory and MIG slices of the largest vGPU."""
        return start_size(self.variant)

    @property
    def text(self) -> str:
        """Its vGPUs, for a reader."""
        return counted_names(self.variant)


def power_on_tiers(starts: Sequence[Start]) -> list[list[str]]:
    """Group the VMs of one host by the size of their vGPUs, the largest first.

    Boards apart: a size says nothing about another board's GPUs. Device groups come before others. One
    tier means no order.
    """
    boards = {start.variant[0].board_key for start in starts}
    tiers: list[list[str]] = []
    for board in sorted(boards):
        alike = [start for start in starts if start.variant[0].board_key == board]
        sizes = sorted({start.size for start in alike}, reverse=True)
        for place, size in enumerate(sizes):
            while len(tiers) <= place:
                tiers.append([])
            tiers[place] += sorted(start.vm for start in alike if start.size == size)
    return tiers


def simulate_starts(
    host: HostState, starts: Sequence[Start]
) -> tuple[dict[str, tuple[int, ...]], str | None]:
    """Start the VMs in their tiers as ESXi would.

    Returns the GPUs that each gets, by index, and the first VM that gets none (None where all do).
    """
    gpus = [gpu.copy() for gpu in host.gpus]
    policy = host.host.assignment_policy or AssignmentPolicy.PERFORMANCE
    by_name = {start.vm: start for start in starts}
    given: dict[str, tuple[int, ...]] = {}
    for tier in power_on_tiers(starts):
        for name in tier:
            chosen: list[int] = []
            for need in by_name[name].variant:
                index = _choose(gpus, need, policy)
                if index is None:
                    return given, name
                gpus[index].take(need, name)
                chosen.append(index)
            given[name] = tuple(chosen)
    return given, None


def _choose(gpus: Sequence[GpuState], need: VgpuNeed, policy: AssignmentPolicy) -> int | None:
    fitting = [index for index, gpu in enumerate(gpus) if gpu.refuse(need) is None]
    if need.is_mig or policy is AssignmentPolicy.CONSOLIDATION:
        return max(fitting, key=lambda index: (len(gpus[index].held), -index), default=None)
    return min(fitting, key=lambda index: len(gpus[index].held), default=None)


_MOST_MODES = 16
_MOST_PATTERNS = 40
"""With more patterns of one board, a host has no modes: each pair of them is a game."""
_TWICE = 2

_Key = tuple[object, ...]
"""A GPU's state without its node, with a pattern: the subject of games."""
_Side = tuple[_Key, int]
"""A pattern, so many times."""


class StartOrder(Enum):
    """The knowledge of an order in which all VMs of a host start for any choice of ESXi's."""

    BY_SIZE = "by size"
    ONE_BY_ONE = "one by one"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class BoardStarts:
    """The starts of one host on GPUs of one board, and how they can be ordered."""

    host: HostState
    board_key: str
    starts: tuple[Start, ...]
    order: StartOrder


def order_starts(
    host: HostState, starts: Sequence[Start], most_positions: int = MOST_POSITIONS
) -> Iterator[BoardStarts]:
    """Order the starts of a host, each board by itself; `host` is its state before any of them.

    No more positions than `most_positions` are looked at for each board: beyond, the order is unknown.
    """
    for board_key in sorted({start.variant[0].board_key for start in starts}):
        own = tuple(start for start in starts if start.variant[0].board_key == board_key)
        gpus, peer_sets = board_gpus(host, board_key)
        counts = Counter(start.variant for start in own)
        content = StartContent(
            tuple(gpu.signature() for gpu in gpus), peer_sets, frozenset(counts.items()), tuple(gpus)
        )
        yield BoardStarts(host, board_key, own, assess_starts(content, most_positions))


@dataclass(frozen=True, slots=True)
class StartContent:
    """The facts that decide the order of starts: the GPUs' load, their peers, and the vGPUs to come.

    Hosts of equal content are judged once; `gpus` are those of one of them.
    """

    signature: tuple[tuple[object, ...], ...]
    peer_sets: tuple[frozenset[int], ...]
    starts: frozenset[tuple[Variant, int]]
    gpus: tuple[GpuState, ...] = field(compare=False)


@lru_cache(maxsize=4_096)
def assess_starts(content: StartContent, most_positions: int) -> StartOrder:
    """Look for an order in which all start, whatever ESXi chooses."""
    variants = [variant for variant, count in content.starts for _ in range(count)]
    search = StartSearch.of(variants, content.gpus, content.peer_sets, most_positions)
    position, left = search.position(content.gpus), search.counted(variants)
    try:
        if search.is_safe_by_size(position, left):
            return StartOrder.BY_SIZE
    except SearchTooLarge:
        pass  # starting one by one may be decided all the same
    try:
        return StartOrder.ONE_BY_ONE if search.can_all_start(position, left) else StartOrder.UNKNOWN
    except SearchTooLarge:
        return StartOrder.UNKNOWN


def board_gpus(host: HostState, board_key: str) -> tuple[list[GpuState], tuple[frozenset[int], ...]]:
    """Return a host's GPUs of a board that take vGPUs, and its sets of peers by their places among them."""
    own = [
        index
        for index, gpu in enumerate(host.gpus)
        if gpu.board_key == board_key and gpu.obstacle is None and all(held.need for held in gpu.held)
    ]
    places = {index: place for place, index in enumerate(own)}
    sets = host.capacity.peer_sets if has_group_api(host.host) else ()
    known = [frozenset(places[index] for index in one) for one in sets if one <= places.keys()]
    return [host.gpus[index] for index in own], tuple(known)


def make_queue(found: BoardStarts) -> StartQueue:
    """Record the facts for starting the VMs."""
    gpus, peer_sets = board_gpus(found.host, found.board_key)
    return StartQueue(
        host_moid=found.host.host.moid,
        gpus=tuple(
            GpuLoad(
                pci_id=gpu.pci_id,
                board=found.board_key,
                sharing=gpu.sharing,
                mode=gpu.mode,
                mixes_series=gpu.mixes_series,
                held=tuple((held.need.name, held.start) for held in gpu.held if held.need is not None),
            )
            for gpu in gpus
        ),
        peer_sets=tuple(tuple(gpus[place].pci_id for place in sorted(one)) for one in peer_sets),
        starts={
            start.vm: tuple((need.name, need.peers) for need in start.variant)
            for start in sorted(found.starts, key=lambda one: one.vm)
        },
    )


def narrow_queues(contests: Iterable[StartQueue], changes: Iterable[Change]) -> Iterator[StartQueue]:
    """Leave out the VMs that a narrowed plan does not start: the queue would never end."""
    started = {change.subject.name for change in of_kind(changes, PowerOnVm)}
    for queue in contests:
        starts = {vm: profiles for vm, profiles in queue.starts.items() if vm in started}
        if len(starts) > 1:
            yield queue.model_copy(update={"starts": starts})


class QueueProgress:
    """A queue while it is worked off: who may start next, given the GPUs that others got."""

    def __init__(self, queue: StartQueue, catalog: Catalog) -> None:
        self._catalog = catalog
        self._board = queue.gpus[0].board if queue.gpus else ""
        self._gpus = {load.pci_id: self._gpu(load) for load in queue.gpus}
        places = {pci_id: place for place, pci_id in enumerate(self._gpus)}
        sets = tuple(frozenset(places[pci_id] for pci_id in one) for one in queue.peer_sets)
        self._variants = {
            vm: tuple(replace(self._need(name), peers=peers) for name, peers in profiles)
            for vm, profiles in queue.starts.items()
        }
        self._search = StartSearch.of(self._variants.values(), list(self._gpus.values()), sets)
        self._absent: set[str] = set()
        self._next: frozenset[str] | None = None

    @property
    def waiting(self) -> frozenset[str]:
        """The VMs that have not been started and may be yet."""
        return frozenset(self._variants.keys() - self._absent)

    @property
    def absent(self) -> frozenset[str]:
        """The VMs that could not be started and whose place is kept."""
        return frozenset(self._absent)

    def next_vms(self) -> frozenset[str]:
        """Name the VMs of which one may start next; none where any could take the place of an absent one."""
        if self._next is None:
            left = self._search.counted(self._variants.values())
            among = {self._variants[vm] for vm in self.waiting}
            position = self._search.position(self._gpus.values())
            kind = self._search.next_kind(position, left, among, or_any=not self._absent)
            self._next = frozenset(vm for vm in self.waiting if self._variants[vm] == kind)
        return self._next

    def started(self, vm: str, pci_ids: Iterable[str]) -> None:
        """Note the GPUs that a VM was given."""
        variant, self._next = self._variants.pop(vm), None
        given = [self._gpus[pci_id] for pci_id in pci_ids if pci_id in self._gpus]
        for need in sorted(variant, key=lambda one: -one.framebuffer_mib):
            taking = [gpu for gpu in given if gpu.refuse(need) is None]
            if taking:
                fewest = min(taking, key=lambda gpu: sum(held.vm == vm for held in gpu.held))
                fewest.take(need, vm)

    def miss(self, vm: str) -> None:
        """Keep the place of a VM that could not be started: no VM starts that could take its last GPU."""
        if vm in self._variants:
            self._absent.add(vm)
        self._next = None

    def leave(self, vm: str) -> None:
        """Forget a VM that runs elsewhere."""
        self._variants.pop(vm, None)
        self._absent.discard(vm)
        self._next = None

    def _need(self, name: str) -> VgpuNeed:
        return needs_of(name, self._catalog)[self._board]

    def _gpu(self, load: GpuLoad) -> GpuState:
        held = [Held("", self._need(name), start) for name, start in load.held]
        board = self._catalog.board(load.board)
        return GpuState(
            load.pci_id, board, load.sharing, load.mode, mixes_series=load.mixes_series, held=held
        )


def progress_by_vm(contests: Iterable[StartQueue], catalog: Catalog) -> Mapping[str, QueueProgress]:
    """Return the queue of every VM that is in one, with its progress."""
    found: dict[str, QueueProgress] = {}
    for queue in contests:
        progress = QueueProgress(queue, catalog)
        found |= dict.fromkeys(queue.starts, progress)
    return found


@dataclass(frozen=True, slots=True)
class StartMode:
    """Patterns by their columns of a block: of `often` any number, of `once` one on the whole host."""

    often: frozenset[int]
    once: frozenset[int]

    def bind(self, program: Program, block: HostBlock, first: int, hosts: int | None = None) -> None:
        """Let a block's variables, from the first on, keep to this: of one host, or of a variable number."""
        if self is ANY_MODE:
            return
        for gpu_class in block.gpu_classes:
            for column in gpu_class.columns:
                if column not in self.often | self.once:
                    program.fix(first + column, 0)
        terms = [(first + column, 1.0) for column in sorted(self.once)]
        if hosts is None:
            program.row(terms, most=1)
        else:
            program.row([*terms, (hosts, -1.0)], most=0)


ANY_MODE = StartMode(frozenset(), frozenset())
"""Any patterns side by side."""


@dataclass(slots=True)
class _Games:
    """The games of one board's patterns; results for one serve the others."""

    search: StartSearch
    gpus: dict[_Key, GpuState]
    counts: dict[_Key, tuple[int, ...]]

    def start(self, *sides: _Side) -> bool:
        """Whether GPUs with these patterns start for certain, as far as was looked."""
        position = self.search.position([self.gpus[key] for key, times in sides for _ in range(times)])
        counts = [[times * count for count in self.counts[key]] for key, times in sides]
        left = tuple(map(sum, zip(*counts, strict=True)))
        for holds in (self.search.is_safe_by_size, self.search.can_all_start):
            try:
                if holds(position, left):
                    return True
            except SearchTooLarge:
                pass  # the other way may be decided all the same
        return False


def find_modes(host: HostState, block: HostBlock, items: Sequence[PatternItem]) -> list[StartMode]:
    """Return the modes of a host, empty where all its patterns go together or there are too many."""
    columns: dict[str, dict[_Key, list[int]]] = {}
    gpus: dict[_Key, GpuState] = {}
    patterns: dict[_Key, tuple[int, ...]] = {}
    for gpu_class in block.gpu_classes:
        gpu = host.gpus[gpu_class.gpus[0]].copy()
        gpu.node = None
        for pattern, column in zip(gpu_class.patterns, gpu_class.columns, strict=True):
            key = (gpu.signature(), pattern)
            gpus[key], patterns[key] = gpu, pattern
            columns.setdefault(gpu.board_key or "", {}).setdefault(key, []).append(column)
    modes = [StartMode(frozenset(), frozenset())]
    for board_key, by_key in columns.items():
        own = _board_modes(
            _games(board_key, {key: gpus[key] for key in by_key}, patterns, items), list(by_key)
        )
        modes = [
            StartMode(
                mode.often | _columns_of(often, by_key),
                mode.once | _columns_of(once, by_key),
            )
            for mode in modes
            for often, once in own
        ][:_MOST_MODES]
    everything = {column for gpu_class in block.gpu_classes for column in gpu_class.columns}
    return [] if any(mode.often == everything for mode in modes) else modes


def _columns_of(keys: Iterable[_Key], by_key: dict[_Key, list[int]]) -> frozenset[int]:
    return frozenset(column for key in keys for column in by_key[key])


def _games(
    board_key: str,
    gpus: dict[_Key, GpuState],
    patterns: dict[_Key, tuple[int, ...]],
    items: Sequence[PatternItem],
) -> _Games:
    own = [place for place, item in enumerate(items) if item.need.board_key == board_key]
    search = StartSearch.of(((items[place].need,) for place in own), list(gpus.values()))
    counts = {
        key: search.counted((items[place].need,) for place in own for _ in range(patterns[key][place]))
        for key in gpus
    }
    return _Games(search, gpus, counts)


def _board_modes(games: _Games, keys: Sequence[_Key]) -> list[tuple[frozenset[_Key], frozenset[_Key]]]:
    """Return the largest sets of patterns that go together, each with those that go with it once."""
    if len(keys) > _MOST_PATTERNS:
        return [(frozenset(keys), frozenset())]
    often = [key for key in keys if games.start((key, _TWICE))]
    groups: list[frozenset[_Key]] = [frozenset()]
    for place, key in enumerate(often):
        with_it = {other for other in often[:place] if games.start((other, _TWICE), (key, _TWICE))}
        grown = [group | {key} if group <= with_it else group for group in groups]
        grown += [(group & with_it) | {key} for group in groups if not group <= with_it]
        groups = [
            group
            for number, group in enumerate(grown)
            if not any(group < other or (group == other and number > n) for n, other in enumerate(grown))
        ]
    return [
        (
            group,
            frozenset(
                key
                for key in keys
                if key not in group
                and games.start((key, 1))
                and all(games.start((other, _TWICE), (key, 1)) for other in often if other in group)
            ),
        )
        for group in groups[:_MOST_MODES]
    ]
