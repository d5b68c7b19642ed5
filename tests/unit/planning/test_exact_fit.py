"""VMs that fill hosts to the last GPU and NIC are placed, and how far an open search came is told."""

from __future__ import annotations

import dataclasses
from functools import partial

import pytest

from tests.bench.exact_fit import MEMORY_SHARES, make_instance, uncertain_hosts
from tests.extent import each
from tests.unit.planning.test_placement import a100s, demands, shape, states
from vgpu_cfg.planning.placement.kinds import Kinds
from vgpu_cfg.planning.placement.milp import Program, Solution
from vgpu_cfg.planning.placement.place import NoPlace, place, place_greedily
from vgpu_cfg.planning.placement.solver import place_by_program
from vgpu_cfg.planning.placement.start_queues import Start, assess_starts, order_starts
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable


def test_vms_that_fit_exactly_are_placed_and_start_whatever_esxi_chooses() -> None:
    made = make_instance(6, 2)
    assert place_greedily(made.hosts, made.demands).left, "the greedy way must fail here"
    found = place_startable(made.hosts, made.demands, PLACERS, {one.vm for one in made.demands})
    assert not found.failed
    assert uncertain_hosts(found) == 0


def test_vms_that_fit_to_the_last_gib_are_placed_too() -> None:
    made = make_instance(24, 1, MEMORY_SHARES[-1])
    found = place_startable(made.hosts, made.demands, PLACERS, {one.vm for one in made.demands})
    assert (len(found.failed), uncertain_hosts(found)) == (0, 0)
    for host in found.hosts:
        assert host.free_mib >= 0


@pytest.mark.parametrize(
    ("hosts", "seed", "memory_share"),
    each(
        [(24, 17, 1.0), (100, 3, 1.0), (100, 4, 1.0), (100, 3, MEMORY_SHARES[0]), (24, 30, 1.0)],
        "a hundred hosts",
        lambda *_: False,
        one_of=5,
    ),
)
def test_a_fleet_that_fits_exactly_is_placed(hosts: int, seed: int, memory_share: float) -> None:
    made = make_instance(hosts, seed, memory_share)
    found = place_startable(made.hosts, made.demands, PLACERS, {one.vm for one in made.demands})
    assert (len(found.failed), uncertain_hosts(found)) == (0, 0)


def test_hosts_that_vms_cannot_be_shared_out_to_are_soon_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = 0
    solve = Program.solve

    def counted(
        program: Program, *, most_nodes: int, gap: float = 0.0, start: tuple[int, ...] = ()
    ) -> Solution:
        nonlocal solved
        solved += 1
        return solve(program, most_nodes=most_nodes, gap=gap, start=start)

    monkeypatch.setattr(Program, "solve", counted)
    hosts = states({name: {"gpus": a100s(4)} for name in "abc"})
    for host in hosts:
        host.free_mib = 80 * 1024
    large, small = (
        shape("grid_a100-20c", hosts=3, memory_mib=32 * 1024),
        shape("grid_a100-20c", hosts=3, memory_mib=24 * 1024),
    )
    wanted = [*demands(6, large, "l"), *demands(1, small, "s")]
    found = place_by_program(hosts, wanted, most_rounds=1)
    assert (len(found.left), found.least_left) == (7, 0), "they fit together, and not on three hosts"
    assert solved <= 20
    found = place_by_program(hosts, wanted)
    assert (len(found.left), found.least_left) == (1, 1)


def test_like_hosts_are_counted_together_whatever_they_are_called() -> None:
    rows = {"a": {"gpus": a100s(2)}, "b": {"gpus": a100s(2)}, "c": {"gpus": a100s(1)}}
    kinds = Kinds(states(rows), demands(4, shape("grid_a100-20c", hosts=3)))
    assert [part.hosts for part in kinds.parts] == [(0, 1), (2,)]
    held = {"x": {"host": "b", "gpus": ["grid_a100-20c"], "on": ["0000:10:00.0"]}}
    kinds = Kinds(states(rows, held), demands(4, shape("grid_a100-20c", hosts=3)))
    assert [part.hosts for part in kinds.parts] == [(0,), (1,), (2,)]


def test_memory_that_no_vm_could_use_is_not_counted() -> None:
    hosts = states({name: {"gpus": a100s(4)} for name in "ab"})
    for host, spare in zip(hosts, (11, 13), strict=True):
        host.free_mib = (2 * 16 + spare) * 1024
    kinds = Kinds(hosts, demands(5, shape("grid_a100-20c", hosts=2)))
    assert [part.hosts for part in kinds.parts] == [(0, 1)], "one GiB more takes no VM more"
    counted_once = partial(place_by_program, most_rounds=1)
    found = counted_once(hosts, kinds.demands)
    assert (len(found.left), found.least_left) == (1, 1)
    hosts[1].free_mib += 4 * 1024
    found = counted_once(hosts, kinds.demands)
    assert (len(found.left), found.least_left) == (0, 0)


def test_hosts_of_one_content_are_assessed_once() -> None:
    hosts = states({name: {"gpus": a100s(2, sharing="mig")} for name in "abc"})
    starts = [
        Start(vm, shape(profile).variants[0])
        for vm, profile in (("x", "grid_a100-3-20c"), ("y", "grid_a100-4-20c"))
    ]
    before = assess_starts.cache_info()
    orders = {one.order for host in hosts for one in order_starts(host, starts)}
    after = assess_starts.cache_info()
    assert len(orders) == 1
    assert (after.misses - before.misses, after.hits - before.hits) in ((1, 2), (0, 3))
    list(order_starts(hosts[0], starts[:1]))
    assert (
        assess_starts.cache_info().misses + assess_starts.cache_info().hits == after.misses + after.hits + 1
    )


def test_a_search_that_is_left_open_says_how_many_have_no_place_at_least() -> None:
    hosts = states({"a": {"gpus": a100s()}, "b": {"gpus": a100s()}})
    wanted = demands(3, shape("grid_a100-40c", hosts=2))
    proven = place_by_program(hosts, wanted)
    assert (len(proven.left), proven.least_left) == (1, 1)
    found = place(hosts, wanted, (place_greedily, partial(place_by_program, most_variables=1)))
    assert {verdict for _, verdict in found.failed.values()} == {NoPlace.UNDECIDED}
    assert (len(found.fits), found.most_placed) == (2, 3)


def test_of_vms_that_are_proven_not_to_fit_all_is_told_how_many_could() -> None:
    hosts = states({name: {"gpus": a100s(4)} for name in "ab"})
    for host in hosts:
        host.free_mib = 100 * 1024
    small = demands(1, shape("grid_a100-20c", hosts=2, memory_mib=20 * 1024), "s")
    wanted = [*demands(6, shape("grid_a100-20c", hosts=2, memory_mib=60 * 1024)), *small]
    once = (place_greedily, partial(place_by_program, most_rounds=1))
    found = place(hosts, wanted, once)
    assert (len(found.fits), found.most_placed) == (3, 4), "counted together, three of the large ones fit"
    assert {verdict for _, verdict in found.failed.values()} == {NoPlace.IMPOSSIBLE}
    found = place(hosts, wanted, PLACERS)
    assert (len(found.fits), found.most_placed) == (3, 3), "counted one by one they do not"


def test_a_vm_goes_to_the_node_that_has_cores_for_it() -> None:
    gpus = [
        {"board": "A100", "pci": f"0000:{0x10 + place:02x}:00.0", "node": place // 2} for place in range(4)
    ]
    large = dataclasses.replace(shape("grid_a100-40c"), cpus=24)
    small = dataclasses.replace(shape("grid_a100-40c"), cpus=8)
    found = place_by_program(
        states({"a": {"gpus": gpus}}), [*demands(2, large, "l"), *demands(2, small, "s")]
    )
    assert {fit.numa_level for fit in found.fits.values()} == {0}
