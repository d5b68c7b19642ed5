from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.test_placement import a100s, shape, states
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import StartQueue
from vgpu_cfg.planning.placement.demand import Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.start_queues import (
    QueueProgress,
    Start,
    StartOrder,
    make_queue,
    order_starts,
)
from vgpu_cfg.planning.placement.start_search import SearchTooLarge, StartSearch

ONE, TWO = "0000:10:00.0", "0000:11:00.0"


def host(count: int, vms: dict[str, Any] | None = None, **more: Any) -> HostState:
    return states({"a": {"gpus": a100s(count, **more)}}, vms)[0]


def variants(**counts: int) -> list[Variant]:
    """Ask for VMs by the end of their profile: `_20c=2` is two of grid_a100-20c, `_3_20c` a MIG one."""
    found: list[Variant] = []
    for name, count in counts.items():
        found += shape("grid_a100-" + name.strip("_").replace("_", "-")).variants * count
    return found


def order_of(on: HostState, *, several: Variant = (), **counts: int) -> StartOrder:
    wanted = [*variants(**counts), *([several] if several else [])]
    starts = [Start(f"vm-{number}", variant) for number, variant in enumerate(wanted)]
    (found,) = order_starts(on, starts)
    return found.order


def test_one_size_starts_in_any_order() -> None:
    assert order_of(host(2), _20c=4) is StartOrder.BY_SIZE


def test_large_ones_first_is_enough_where_gpus_are_left() -> None:
    assert order_of(host(4), _40c=2, _20c=2) is StartOrder.BY_SIZE


def test_sizes_that_fill_their_gpus_start_one_by_one() -> None:
    assert order_of(host(2), _20c=2, _10c=4) is StartOrder.ONE_BY_ONE
    assert order_of(host(4), _20c=3, _10c=5) is StartOrder.ONE_BY_ONE


def test_a_gpu_that_runs_the_size_already_counts() -> None:
    vms = {"x": {"host": "a", "gpus": ["grid_a100-10c"], "on": [ONE]}}
    assert order_of(host(2, vms), _20c=2, _10c=3) is StartOrder.BY_SIZE


def test_several_vgpus_of_one_vm_may_be_spread() -> None:
    several = variants(_20c=1)[0] * 2
    assert order_of(host(2), several=several, _10c=4) is StartOrder.ONE_BY_ONE
    assert order_of(host(3), several=several, _10c=4) is StartOrder.BY_SIZE


def test_no_order_is_certain_where_two_3g_may_share_a_gpu() -> None:
    assert order_of(host(2, sharing="mig"), _3_20c=2, _2_10c=4) is StartOrder.UNKNOWN
    assert order_of(host(2, sharing="mig"), _3_20c=2, _2_10c=3) is StartOrder.BY_SIZE


def test_what_cannot_start_at_all_is_not_won() -> None:
    assert order_of(host(1), _20c=3) is StartOrder.UNKNOWN


def test_a_game_that_is_too_large_is_left_undecided() -> None:
    on = host(2, sharing="mig")
    wanted = variants(_3_20c=2, _2_10c=3)
    search = StartSearch(StartSearch.of(wanted, on.gpus).kinds, on.gpus, most_positions=1)
    with pytest.raises(SearchTooLarge):
        search.can_all_start(search.position(on.gpus), search.counted(wanted))


def queue(on: HostState, **counts: int) -> StartQueue:
    starts = [
        Start(f"{variant[0].size_gb}-{number}", variant) for number, variant in enumerate(variants(**counts))
    ]
    (found,) = order_starts(on, starts)
    return make_queue(found)


def sizes(names: frozenset[str]) -> set[str]:
    return {name.partition("-")[0] for name in names}


def test_a_turn_goes_to_a_size_that_must_open_a_gpu() -> None:
    turns = QueueProgress(queue(host(2), _20c=2, _10c=4), load_catalog())
    assert sizes(turns.next_vms()) == {"20"}
    turns.started("20-0", [ONE])
    assert sizes(turns.next_vms()) == {"10"}, "another of 20 GB could take the second GPU"
    turns.started("10-2", [TWO])
    assert sizes(turns.next_vms()) == {"20"}, "now every GPU has its size"
    assert turns.waiting == {"20-1", "10-3", "10-4", "10-5"}


def test_a_vm_that_runs_elsewhere_makes_room() -> None:
    turns = QueueProgress(queue(host(2), _20c=2, _10c=4), load_catalog())
    turns.started("20-0", [ONE])
    for number in range(2, 6):
        turns.leave(f"10-{number}")
    assert turns.next_vms() == {"20-1"}


def test_the_place_of_one_that_could_not_start_is_kept() -> None:
    turns = QueueProgress(queue(host(2), _20c=2, _10c=4), load_catalog())
    turns.miss("20-0")
    turns.miss("20-1")
    assert sizes(turns.next_vms()) == {"10"}
    turns.started("10-2", [ONE])
    assert turns.next_vms() == frozenset(), "another could take the GPU that the halves need"
    assert turns.absent == {"20-0", "20-1"}


def test_a_contest_is_plain_data() -> None:
    made = queue(host(2), _20c=2, _10c=4)
    assert StartQueue.model_validate_json(made.model_dump_json()) == made
