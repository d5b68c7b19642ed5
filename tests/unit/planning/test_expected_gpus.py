"""VMs do not crowd on the NUMA node of the GPUs that ESXi takes first while another host would do."""

from __future__ import annotations

from random import Random

import pytest

from tests.bench.makers import MAKERS, check, make_strangers
from tests.unit.planning.test_placement import demands, hosts_of, shape, states
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.placement.expected_gpus import expect_gpus
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import FIGURES, Placed, score
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable

H100 = "nvidia_h100xm-80c"


def eights(count: int, node_gib: int = 256) -> list[HostState]:
    gpus = [
        {"board": "H100XM", "pci": f"0000:{16 + number:02x}:00.0", "node": number // 4} for number in range(8)
    ]
    return states(
        {f"h{number}": {"gpus": gpus, "node_gib": node_gib, "cores": 128} for number in range(count)}
    )


def placed(hosts: list[HostState], wanted: list[Demand]) -> Placed:
    return expect_gpus(place_startable(hosts, wanted, PLACERS, {one.vm for one in wanted}), wanted)


def crowded(found: Placed) -> list[str]:
    return [vm for vm, fit in found.fits.items() if fit.numa_level]


@pytest.mark.parametrize(
    ("vms", "hosts"),
    [(8, 8), pytest.param(100, 200, marks=pytest.mark.long("the same on as many hosts as were reported"))],
)
def test_a_vm_per_host_is_better_than_two_on_one_node(vms: int, hosts: int) -> None:
    wanted = demands(vms, shape(H100, hosts=hosts, memory_mib=150 * 1024))
    found = placed(eights(hosts), wanted)
    assert not crowded(found)
    assert len(set(hosts_of(found).values())) == vms


def test_vms_that_crowd_no_node_fill_a_host() -> None:
    wanted = demands(8, shape(H100, hosts=8, memory_mib=40 * 1024))
    assert set(hosts_of(placed(eights(8), wanted)).values()) == {0}


def test_a_host_that_is_kept_free_relieves_none() -> None:
    wanted = demands(2, shape(H100, hosts=2, memory_mib=150 * 1024, keep_free=1))
    assert set(hosts_of(placed(eights(2), wanted)).values()) == {0}


@pytest.mark.parametrize("seed", range(12))
def test_no_vm_is_crowded_while_an_equal_host_is_empty(seed: int) -> None:
    random = Random(seed)  # noqa: S311 - the same every time
    count = random.randrange(2, 9)
    wanted = [
        demand
        for number, gib in enumerate(random.sample([20, 50, 90, 120, 200], 2))
        for demand in demands(
            random.randrange(1, 2 * count), shape(H100, hosts=count, memory_mib=gib * 1024), f"line{number}"
        )
    ]
    hosts = eights(count)
    found = placed(hosts, wanted)
    used = set(hosts_of(found).values())
    assert not crowded(found) or used == set(range(count))
    for index, host in enumerate(found.hosts):
        held = [one for gpu in host.gpus for one in gpu.held]
        assert len(held) == sum(fit.host == index for fit in found.fits.values())


@pytest.mark.parametrize(("maker", "seed"), [("apart", 2), ("strangers", 2)])
def test_exact_fits_of_each_maker_are_placed_and_right(maker: str, seed: int) -> None:
    made = MAKERS[maker](6, seed)
    found = place_startable(made.hosts, made.demands, PLACERS, {one.vm for one in made.demands})
    assert not found.failed
    assert check(made, found) == []


@pytest.mark.exhaustive("a hundred hosts")
def test_a_hundred_hosts_with_lines_apart_are_placed_and_right() -> None:
    made = MAKERS["apart"](100, 1)
    found = place_startable(made.hosts, made.demands, PLACERS, {one.vm for one in made.demands})
    assert not found.failed
    assert check(made, found) == []


def test_the_check_of_a_placement_finds_what_is_wrong() -> None:
    made = make_strangers(4, 1)
    found = place_startable(made.hosts, made.demands, PLACERS, set())
    assert check(made, found) == []
    vm, fit = next(iter(found.fits.items()))
    other = next(name for name, one in found.fits.items() if one.host != fit.host)
    found.fits[vm] = found.fits[other]
    assert check(made, found)


def test_each_figure_of_a_score_has_a_name() -> None:
    (host,) = eights(1)
    wanted = shape(H100, hosts=1, memory_mib=1024)
    fit = host.fit(wanted)
    assert fit is not None
    figures = dict(zip(FIGURES, score(fit, 3, host, wanted), strict=True))
    assert (figures["rank"], figures["host"]) == (3, fit.host)
    assert (figures["numa"], figures["far_nics"]) == (fit.numa_level, fit.far_nics)
    assert (figures["unlike"], figures["opened"]) == (fit.unlike, fit.opened)
