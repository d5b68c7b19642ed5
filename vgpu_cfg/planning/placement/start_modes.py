"""Which patterns of GPUs a host can have side by side so that its VMs start whichever GPU ESXi chooses.

Two patterns go together where twice each, on four GPUs, start for certain: small games that tell of the
large one. Of a MIG host with 4g+3g, a GPU of 2g and 1g alone would strand a 4g's partner. A mode is a largest
set of patterns that all go together; a host that keeps to one is nearly always startable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.placement.host_block import HostBlock
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.milp import Program
from vgpu_cfg.planning.placement.patterns import PatternItem
from vgpu_cfg.planning.placement.start_search import SearchTooLarge, StartSearch

_MOST_MODES = 16
_MOST_PATTERNS = 40
"""With more patterns of one board, a host has no modes: each pair of them is a game."""
_TWICE = 2

_Key = tuple[object, ...]
"""A GPU as it is, its node aside, with a pattern: what games are about."""
_Side = tuple[_Key, int]
"""A pattern, so many times."""


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
    """The games of one board's patterns; what was found out for one serves the others."""

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
