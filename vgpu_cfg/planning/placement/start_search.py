"""Search for a start of all VMs of a host with any GPUs that ESXi chooses, and the next VM to start for that.

ESXi chooses the GPU of a vGPU, and cannot be made to choose another. So it is searched like a game: the order
is ours, each choice is ESXi's, and it is won if all VMs finally run for every choice. Of vGPUs of one size
that lock a GPU each, the rule is short: start a size only while it must still open idle GPUs, or when no
other has to. All else is searched through, boards apart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil
from operator import add

from vgpu_cfg.model.vgpu import VgpuMode
from vgpu_cfg.planning.capacity.gpu_state import GpuState, VgpuNeed
from vgpu_cfg.planning.placement.demand import Variant

Position = tuple[int, ...]
"""The GPUs, each by the number of its state."""
Remaining = tuple[int, ...]
"""How many VMs of each kind are still to be started."""
Cache = dict[tuple[Position, Remaining], bool]
Predicate = Callable[[Position, Remaining], bool]

MOST_POSITIONS = 20_000
"""So many of each kind of judgement are looked at."""
_MOST_VMS = 120
"""More are not looked through: every start is a level of the search."""


class SearchTooLarge(Exception):
    """There are too many positions to look through."""


@dataclass(slots=True)
class StartSearch:
    """The VMs that are to start on one host's GPUs of one board; `kinds` are their vGPUs, the largest first.

    `peer_sets` are the sets of GPUs, by index, of which a device group takes one whole; empty where the
    host has no device groups.
    """

    kinds: tuple[Variant, ...]
    gpus: Sequence[GpuState]
    peer_sets: tuple[frozenset[int], ...] = ()
    most_positions: int = MOST_POSITIONS
    _numbers: dict[tuple[object, ...], int] = field(default_factory=dict)
    _by_future: dict[tuple[object, ...], int] = field(default_factory=dict)
    _states: list[GpuState] = field(default_factory=list)
    _steps: dict[tuple[int, VgpuNeed], int | None] = field(default_factory=dict)
    _rooms: dict[tuple[int, VgpuNeed], int] = field(default_factory=dict)
    _startable: Cache = field(default_factory=dict)
    _safe: Cache = field(default_factory=dict)
    _needs: tuple[VgpuNeed, ...] = field(init=False)
    _weights: tuple[tuple[int, ...], ...] = field(init=False)
    _weights_of_kinds: tuple[tuple[int, ...], ...] = field(init=False)
    _most: dict[int, tuple[int, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._needs = tuple(dict.fromkeys(need for kind in self.kinds for need in kind))
        by_need = {need: tuple(_weights(need, self._needs)) for need in self._needs}
        self._weights = tuple(by_need.values())
        self._weights_of_kinds = tuple(
            tuple(map(sum, zip(*(by_need[need] for need in kind), strict=True))) for kind in self.kinds
        )

    @classmethod
    def of(
        cls,
        variants: Iterable[Variant],
        gpus: Sequence[GpuState],
        peer_sets: tuple[frozenset[int], ...] = (),
        most_positions: int = MOST_POSITIONS,
    ) -> StartSearch:
        """Make the search for VMs with these vGPUs."""
        kinds = sorted(
            set(variants), key=lambda kind: (*start_size(kind), [need.name for need in kind]), reverse=True
        )
        uses_sets = any(need.peers is not None for kind in kinds for need in kind)
        return cls(tuple(kinds), gpus, peer_sets if uses_sets else (), most_positions)

    def counted(self, variants: Iterable[Variant]) -> Remaining:
        """Count VMs by kind."""
        counts = dict.fromkeys(self.kinds, 0)
        for variant in variants:
            counts[variant] += 1
        return tuple(counts.values())

    def position(self, gpus: Iterable[GpuState]) -> Position:
        """Return the position that GPUs are in; where none is part of a set, their order does not matter."""
        return self._ordered([self._number(gpu) for gpu in gpus])

    def can_all_start(self, position: Position, left: Remaining) -> bool:
        """Whether some order starts all VMs whatever ESXi chooses. Raises SearchTooLarge."""
        if not any(left):
            return True
        if (quick := self._quickly(position, left)) is not None:
            return quick
        if not self._has_room(position, left):
            return False
        if sum(left) > _MOST_VMS:
            raise SearchTooLarge
        known = self._startable.get((position, left))
        if known is None:
            known = any(self._is_safe_next(kind, position, left) for kind, count in enumerate(left) if count)
            self._keep(self._startable, (position, left), known=known)
        return known

    def is_safe_by_size(self, position: Position, left: Remaining) -> bool:
        """Whether all start in any order that has larger vGPUs before smaller. Raises SearchTooLarge."""
        if not any(left):
            return True
        if self._is_simple():
            return self._is_simply_safe(position, left)
        if not self._has_room(position, left):
            return False
        if sum(left) > _MOST_VMS:
            raise SearchTooLarge
        known = self._safe.get((position, left))
        if known is None:
            largest = max(start_size(kind) for kind, count in zip(self.kinds, left, strict=True) if count)
            known = all(
                self._all(self.is_safe_by_size, index, position, left)
                for index, kind in enumerate(self.kinds)
                if left[index] and start_size(kind) == largest
            )
            self._keep(self._safe, (position, left), known=known)
        return known

    def next_kind(
        self, position: Position, left: Remaining, among: Collection[Variant], *, or_any: bool
    ) -> Variant | None:
        """Return the kind to start next, `among` some, so that all that are left can follow.

        If none can promise that, it is the largest with `or_any`, else None; None if nothing is left.
        """
        kinds = [index for index, count in enumerate(left) if count and self.kinds[index] in among]
        for index in kinds:
            try:
                if self._is_safe_next(index, position, left):
                    return self.kinds[index]
            except SearchTooLarge:
                break
        return self.kinds[kinds[0]] if kinds and or_any else None

    def _is_safe_next(self, kind: int, position: Position, left: Remaining) -> bool:
        return self._all(self.can_all_start, kind, position, left)

    def _all(self, holds: Predicate, kind: int, position: Position, left: Remaining) -> bool:
        """Whether a VM of a kind starts whatever is chosen, and all is well after each choice."""
        after = (*left[:kind], left[kind] - 1, *left[kind + 1 :])
        outcomes = self.outcomes(position, self.kinds[kind])
        return outcomes is not None and all(holds(one, after) for one in outcomes)

    def outcomes(self, position: Position, variant: Variant) -> set[Position] | None:
        """Return a start's possible results; None if some choice of ESXi's leaves a vGPU without a GPU."""
        reached = {position}
        for size, need in self._requests(variant):
            step: set[Position] = set()
            for at in reached:
                chosen = list(self._choices(at, need, size))
                if not chosen:
                    return None
                step.update(chosen)
            reached = step
        return reached

    def _requests(self, variant: Variant) -> Iterator[tuple[int, VgpuNeed]]:
        """Yield the vGPUs in the order in which they get GPUs, a device group as one of several."""
        numbers = dict.fromkeys(need.peers for need in variant if need.peers is not None and self.peer_sets)
        for number in numbers:
            members = [need for need in variant if need.peers == number]
            yield len(members), members[0]
        single = [need for need in variant if need.peers not in numbers]
        for need in sorted(single, key=lambda one: (-one.framebuffer_mib, one.name)):
            yield 1, need

    def _choices(self, at: Position, need: VgpuNeed, size: int) -> Iterator[Position]:
        if size > 1:
            for members in self.peer_sets:
                if len(members) == size and all(self._states[at[index]].is_idle for index in members):
                    stepped = {index: self._step(at[index], need) for index in members}
                    after = [stepped.get(index, one) for index, one in enumerate(at)]
                    if None not in after:
                        yield self._ordered([number for number in after if number is not None])
            return
        tried: set[int] = set()
        for index, number in enumerate(at):
            if number in tried and not self.peer_sets:
                continue
            tried.add(number)
            if (single := self._step(number, need)) is not None:
                yield self._ordered([*at[:index], single, *at[index + 1 :]])

    def _has_room(self, position: Position, left: Remaining) -> bool:
        """Whether all could start if ESXi chose ideally, as far as sums show: most losses show here."""
        rooms = map(sum, zip(*(self._most_of(number) for number in position), strict=True))
        for place, room in enumerate(rooms):
            if room < sum(
                count * weights[place] for count, weights in zip(left, self._weights_of_kinds, strict=True)
            ):
                return False
        return True

    def _most_of(self, number: int) -> tuple[int, ...]:
        """Return, by each weight, the most that a GPU can take from a state on."""
        if number not in self._most:
            ways = [
                tuple(map(add, weights, self._most_of(after)))
                for need, weights in zip(self._needs, self._weights, strict=True)
                if (after := self._step(number, need)) is not None
            ]
            none = (0,) * len(self._weights[0])
            self._most[number] = tuple(map(max, none, *ways)) if ways else none
        return self._most[number]

    def _quickly(self, position: Position, left: Remaining) -> bool | None:
        """Decide without a search: one kind of single vGPUs, or sizes that lock a GPU each."""
        kinds = [kind for kind, count in zip(self.kinds, left, strict=True) if count]
        if len(kinds) == 1 and len(kinds[0]) == 1:
            return sum(self._room(number, kinds[0][0]) for number in position) >= sum(left)
        if not self._is_simple():
            return None
        idle = self._idle(position)
        return sum(self._to_open(position, sizes, count) for sizes, count in self._by_size(left)) <= idle

    def _is_simple(self) -> bool:
        """Whether every GPU takes one size only, and every VM has one vGPU or several whole GPUs."""
        return (
            not self.peer_sets
            and all(gpu.mode is VgpuMode.SAME_SIZE for gpu in self.gpus)
            and all(not need.is_mig for kind in self.kinds for need in kind)
            and all(len(kind) == 1 or all(need.max_per_gpu == 1 for need in kind) for kind in self.kinds)
            and len({need.series for kind in self.kinds for need in kind}) == 1
        )

    def _is_simply_safe(self, position: Position, left: Remaining) -> bool:
        """Let each size open as many idle GPUs as it has VMs, the largest first, and check the rest."""
        idle = self._idle(position)
        for need, count in self._by_size(left):
            free = sum(self._room(number, need) for number in position if self._states[number].held)
            if free + idle * need.max_per_gpu < count:
                return False
            idle -= min(idle, count)
        return True

    def _by_size(self, left: Remaining) -> list[tuple[VgpuNeed, int]]:
        """Count the vGPUs that are left by size, the largest first; each size by one of its profiles."""
        counts: dict[int, tuple[VgpuNeed, int]] = {}
        for kind, count in zip(self.kinds, left, strict=True):
            need, before = counts.get(kind[0].framebuffer_mib, (kind[0], 0))
            counts[need.framebuffer_mib] = (need, before + count * len(kind))
        return [counts[size] for size in sorted(counts, reverse=True)]

    def _to_open(self, position: Position, need: VgpuNeed, count: int) -> int:
        """Count the idle GPUs that vGPUs of a size need in addition to those that they share already."""
        free = sum(self._room(number, need) for number in position if self._states[number].held)
        return ceil(max(0, count - free) / need.max_per_gpu)

    def _idle(self, position: Position) -> int:
        own = self.kinds[0][0]
        return sum(
            self._states[number].is_idle and self._states[number].refuse(own) is None for number in position
        )

    def _room(self, number: int, need: VgpuNeed) -> int:
        if (number, need) not in self._rooms:
            self._rooms[number, need] = self._states[number].room(need)
        return self._rooms[number, need]

    def _step(self, number: int, need: VgpuNeed) -> int | None:
        if (number, need) not in self._steps:
            after = self._after(self._states[number], need)
            self._steps[number, need] = None if after is None else self._number(after)
        return self._steps[number, need]

    def _number(self, gpu: GpuState) -> int:
        """Return the number of a GPU's state: the same for states that can take the same from here on."""
        held = sorted(
            (one.need.name if one.need else "", -1 if one.start is None else one.start) for one in gpu.held
        )
        key = (gpu.board_key, gpu.sharing, gpu.mode, gpu.obstacle, gpu.is_cordoned, tuple(held))
        if key not in self._numbers:
            steps = [self._after(gpu, need) for need in self._needs]
            future = (bool(held), gpu.is_idle, *(None if one is None else self._number(one) for one in steps))
            if future not in self._by_future:
                self._by_future[future] = len(self._states)
                self._states.append(gpu.copy())
            self._numbers[key] = self._by_future[future]
        return self._numbers[key]

    @staticmethod
    def _after(gpu: GpuState, need: VgpuNeed) -> GpuState | None:
        if gpu.refuse(need) is not None:
            return None
        after = gpu.copy()
        after.take(need, "")
        return after

    def _ordered(self, numbers: list[int]) -> Position:
        return tuple(numbers) if self.peer_sets else tuple(sorted(numbers))

    def _keep(self, cache: Cache, key: tuple[Position, Remaining], *, known: bool) -> None:
        if len(cache) >= self.most_positions:
            raise SearchTooLarge
        cache[key] = known


def _weights(need: VgpuNeed, needs: Sequence[VgpuNeed]) -> Iterator[int]:
    """Yield a vGPU's weights: memory, slices, and one for each size that it has or exceeds."""
    yield need.framebuffer_mib
    yield need.mig_size
    yield need.mig_compute
    for other in needs:
        yield int(need.framebuffer_mib >= other.framebuffer_mib)
        yield int(need == other)


def start_size(variant: Variant) -> tuple[int, int, int]:
    """Return what sorts starts: device groups before others, then memory, then MIG slices."""
    largest = max((need.framebuffer_mib, need.mig_size) for need in variant)
    peers = sum(need.peers is not None for need in variant)
    return (peers, *largest)
