"""Patterns of GPUs that start side by side, and those that one host shall not have both of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.unit.planning.test_placement import a100s, demands, shape, states
from vgpu_cfg.planning.placement.filling import Group, deal
from vgpu_cfg.planning.placement.kinds import Kinds
from vgpu_cfg.planning.placement.start_queues import ANY_MODE, Start, StartMode, StartOrder, order_starts

MIG = ("grid_a100-4-20c", "grid_a100-3-20c", "grid_a100-2-10c", "grid_a100-1-5c")
PAIR, SMALL, THREES, ODD = (1, 1, 0, 0), (0, 0, 3, 1), (0, 2, 0, 0), (0, 1, 2, 0)
"""How many of each a GPU has: a 4g with a 3g, no large one, two of 3g, a 3g beside small ones."""


def kinds_of(profiles: Sequence[str], **gpus: str) -> Kinds:
    wanted = [
        one
        for number, profile in enumerate(profiles)
        for one in demands(8, shape(profile, hosts=1), f"v{number}")
    ]
    return Kinds(states({"a": {"gpus": a100s(4, **gpus)}}), wanted)


def named(kinds: Kinds, columns: frozenset[int]) -> set[tuple[int, ...]]:
    """Return the patterns of columns, with counts in the order of `MIG`."""
    order = [[item.need.name for item in kinds.book.items].index(profile) for profile in MIG]
    return {
        tuple(pattern[place] for place in order)
        for gpu_class in kinds.blocks[0].gpu_classes
        for pattern, column in zip(gpu_class.patterns, gpu_class.columns, strict=True)
        if column in columns
    }


def started(kinds: Kinds, *patterns: tuple[int, ...]) -> StartOrder:
    counts = map(sum, zip(*patterns, strict=True))
    starts = [
        Start(f"{profile}-{number}", shape(profile).variants[0])
        for profile, count in zip(MIG, counts, strict=True)
        for number in range(count)
    ]
    return next(iter(order_starts(kinds.hosts[0], starts))).order


def test_a_pair_of_4g_and_3g_is_not_beside_gpus_of_small_instances() -> None:
    kinds = kinds_of(MIG, sharing="mig")
    modes = kinds.modes(0)
    often = [named(kinds, mode.often) for mode in modes]
    assert any({PAIR, THREES} <= one for one in often)
    assert any({SMALL, THREES} <= one for one in often)
    assert not any({PAIR, SMALL} <= one for one in often)
    assert any(ODD in named(kinds, mode.once) for mode in modes)


def test_what_modes_tell_apart_the_game_does_too() -> None:
    kinds = kinds_of(MIG, sharing="mig")
    assert started(kinds, *[PAIR] * 2, *[THREES] * 2) is not StartOrder.UNKNOWN
    assert started(kinds, *[SMALL] * 2, *[THREES] * 2) is not StartOrder.UNKNOWN
    assert started(kinds, *[PAIR] * 2, *[SMALL] * 2) is StartOrder.UNKNOWN


def test_gpus_of_which_all_patterns_start_have_no_modes() -> None:
    assert kinds_of(("grid_a100-20c", "grid_a100-10c")).modes(0) == []


def test_patterns_are_dealt_out_evenly_and_those_of_once_to_different_hosts() -> None:
    kinds = kinds_of(MIG, sharing="mig")
    block = kinds.blocks[0]
    columns = block.gpu_classes[0].columns
    together = [0] * len(block.most)
    together[columns[0]], together[columns[1]], together[columns[2]] = 4, 6, 2
    mode = StartMode(frozenset(columns[:2]), frozenset(columns[2:3]))
    hands = deal([block] * 3, Group(mode, 3, tuple(together)))
    assert [sum(hand.values()) for hand in hands] == [4, 4, 4]
    assert [hand.get(columns[2], 0) for hand in hands] == [1, 1, 0]
    hands = deal([block] * 3, Group(ANY_MODE, 3, tuple(together)))
    assert sum(map(Counter, hands), Counter()) == {columns[0]: 4, columns[1]: 6, columns[2]: 2}
