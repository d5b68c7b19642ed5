from __future__ import annotations

import dataclasses
from typing import Any

from tests.unit.planning.test_placement import a100s, demands, shape, states
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Attempt
from vgpu_cfg.planning.placement.startable import PLACERS, improve, place_startable


def put(hosts: list[HostState], *places: tuple[Demand, int]) -> Attempt:
    """Put VMs where somebody clumsy would."""
    attempt = Attempt([host.copy() for host in hosts], hosts)
    for demand, index in places:
        fit = attempt.hosts[index].fit(demand.shape)
        assert fit is not None
        attempt.hosts[index].commit(demand, fit)
        attempt.fits[demand.vm] = fit
    return attempt


def two_hosts(**more: Any) -> list[HostState]:
    return states({"a": {"gpus": a100s(1, **more)}, "b": {"gpus": a100s(1, **more)}})


def test_a_vm_goes_where_a_gpu_of_its_size_is_open() -> None:
    one, two = demands(2, shape("grid_a100-20c", hosts=2))
    attempt = put(two_hosts(), (one, 0), (two, 1))
    improve(attempt, [one, two])
    assert [fit.host for fit in attempt.fits.values()] == [1, 1]
    assert attempt.hosts[0].gpus[0].is_idle


def test_what_is_best_already_stays() -> None:
    one, two = demands(2, shape("grid_a100-20c", hosts=2))
    attempt = put(two_hosts(), (one, 0), (two, 0))
    before = dict(attempt.fits)
    improve(attempt, [one, two])
    assert attempt.fits == before


def test_a_vm_that_exists_is_not_moved() -> None:
    one, two = (dataclasses.replace(one, stays=True) for one in demands(2, shape("grid_a100-20c", hosts=2)))
    attempt = put(two_hosts(), (one, 0), (two, 1))
    improve(attempt, [one, two])
    assert [fit.host for fit in attempt.fits.values()] == [0, 1]


def test_the_first_cluster_is_worth_more_than_a_whole_gpu() -> None:
    wanted = dataclasses.replace(shape("grid_a100-20c"), hosts=((0, 0), (1, 1)))
    other = shape("grid_a100-20c", hosts=[1])
    one, two = Demand("one", "", wanted), Demand("two", "", other)
    attempt = put(two_hosts(), (one, 0), (two, 1))
    improve(attempt, [one, two])
    assert attempt.fits["one"].host == 0


def test_a_4g_start_is_given_back() -> None:
    small = shape("grid_a100-1-5c", hosts=2)
    filler = [Demand(f"f-{number}", "", shape("grid_a100-1-5c", hosts=[1])) for number in range(5)]
    one = Demand("one", "", small)
    attempt = put(two_hosts(sharing="mig"), *((demand, 1) for demand in filler), (one, 0))
    improve(attempt, [*filler, one])
    assert attempt.fits["one"].host == 1
    assert attempt.hosts[0].gpus[0].has_4g_start


def test_it_looks_a_bounded_number_of_times() -> None:
    one, two = demands(2, shape("grid_a100-20c", hosts=2))
    attempt = put(two_hosts(), (one, 0), (two, 1))
    improve(attempt, [one, two], most_looks=0)
    assert [fit.host for fit in attempt.fits.values()] == [0, 1]


def test_sizes_that_could_strand_one_another_are_kept_apart() -> None:
    mig = {"sharing": "mig"}
    hosts = states({"a": {"gpus": a100s(2, **mig)}, "b": {"gpus": a100s(2, **mig)}})
    large, small = shape("grid_a100-3-20c", hosts=2), shape("grid_a100-2-10c", hosts=2)
    wanted = [*demands(2, large, "l"), *demands(4, small, "s")]
    names = {demand.vm for demand in wanted}
    found = place_startable(hosts, wanted, PLACERS, names)
    by_size = {kind: {found.fits[vm].host for vm in names if vm.startswith(kind)} for kind in "ls"}
    assert not found.failed
    assert by_size["l"].isdisjoint(by_size["s"])


def test_on_one_host_they_stay_together() -> None:
    hosts = states({"a": {"gpus": a100s(2, sharing="mig")}})
    wanted = [*demands(2, shape("grid_a100-3-20c"), "l"), *demands(4, shape("grid_a100-2-10c"), "s")]
    found = place_startable(hosts, wanted, PLACERS, {demand.vm for demand in wanted})
    assert len(found.fits) == 6
