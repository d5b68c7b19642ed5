from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.bench.placement import fleet
from tests.unit.planning.test_placement import CATALOG, a100s, passed_through, shape, states
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.gpu_state import Held, needs_of
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.patterns import SharedFits

HERE = "0000:99:00.0"
HELD = needs_of("grid_a100-10c", CATALOG)


def twins(**more: Any) -> list[HostState]:
    hosts = [{"gpus": a100s(2, **more), "node_gib": 512, "cores": 64} for _ in range(2)]
    return states({"a": hosts[0], "b": hosts[1]})


def kinds(hosts: list[HostState]) -> int:
    return len(set(SharedFits(hosts).kinds))


def hold(host: HostState, line: str = "") -> None:
    host.gpus[0].held.append(Held("x", next(iter(HELD.values())), line=line))


def reside(host: HostState) -> None:
    host.residents["line"] = 1
    host.node_lines[0] = frozenset({"line"})


def read(**update: Any) -> Any:
    """Change what was read of a host."""
    return lambda host: setattr(host, "capacity", replace(host.capacity, **update))


def of_host(**update: Any) -> Any:
    """Change the host itself."""
    return lambda host: read(host=host.host.model_copy(update=update))(host)


DIFFERENT = {
    "a vGPU": hold,
    "less memory": lambda host: setattr(host, "free_mib", 1),
    "a node with VMs": lambda host: host.promise(4, 1024, (0,)),
    "a VM of a line": reside,
    "another list of what can be created": lambda host: setattr(
        host, "creatable", frozenset({"grid_a100-5c"})
    ),
    "other NVLink peers": read(peer_sets=(frozenset({0, 1}),)),
    "another release": of_host(version="7.0.3"),
    "fewer cores": of_host(cores=2),
    "a cordoned GPU": lambda host: setattr(host.gpus[1], "is_cordoned", True),
}


@pytest.mark.parametrize("change", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_hosts_that_differ_in_what_counts_are_not_alike(change: Any) -> None:
    hosts = twins()
    change(hosts[1])
    assert kinds(hosts) == 2


def test_names_and_addresses_tell_no_hosts_apart() -> None:
    hosts = twins()
    for number, host in enumerate(hosts):
        hold(host)
        host.gpus[0].held[0] = Held(f"vm-{number}", host.gpus[0].held[0].need)
        host.gpus[0].pci_id = f"0000:{number}1:00.0"
    assert kinds(hosts) == 1


SHAPES = (
    shape("grid_a100d-10c", hosts=9),
    shape("grid_a100d-20c", "grid_a100d-20c", hosts=9, cpus=60, memory_mib=300 * 1024),
    shape("grid_a100d-40c", hosts=9, line="far", spread=Spread.HOSTS),
    shape("nvidia_l40s-12c", hosts=9, line="apart", spread=Spread.NUMA, numa=NumaPolicy.NODE),
    shape("nvidia_l40s-8c", hosts=9),
    shape("nvidia_h100xm-3-40c", hosts=9, line="gpus", spread=Spread.GPUS),
    shape("nvidia_h100xm-1-10c", hosts=9),
    shape(hosts=9, memory_mib=700 * 1024),
)


@pytest.mark.parametrize("seed", range(3))
def test_what_is_shared_is_what_each_host_would_say(seed: int) -> None:
    hosts, random = fleet(9), Random(seed)  # noqa: S311 - the same every time
    shared = SharedFits(hosts)
    assert len(set(shared.kinds)) == 3
    asked = {number: shared.of(one) for number, one in enumerate(SHAPES)}
    for number in range(150):
        fits = asked[random.randrange(len(SHAPES))]
        found = {index: host.fit(fits.shape) for index, host in enumerate(hosts)}
        assert {index: fits.on(index) for index in found} == found
        assert fits.is_anywhere == any(found.values())
        if taken := [fit for fit in found.values() if fit is not None]:
            fit = random.choice(taken)
            line = fits.shape.line
            hosts[fit.host].commit(Demand(f"vm-{number}", line, fits.shape), fit)
            fits.took(fit.host, line)
    assert len(set(shared.kinds)) > 3


def test_hosts_that_took_the_same_are_alike_still() -> None:
    hosts = fleet(6)
    shared = SharedFits(hosts)
    for wanted in (SHAPES[0], SHAPES[4], SHAPES[6]):
        fits = shared.of(wanted)
        for index, host in enumerate(hosts):
            if (fit := fits.on(index)) is not None:
                host.commit(Demand(f"{index}", "", wanted), fit)
                fits.took(index, "")
    assert len(set(shared.kinds)) == 3


def test_a_vm_with_a_device_by_address_is_asked_of_each_host() -> None:
    hosts = states(
        {name: {"gpus": [passed_through(pci)]} for name, pci in (("a", "0000:10:00.0"), ("b", HERE))}
    )
    assert kinds(hosts) == 1
    fits = SharedFits(hosts).of(Shape(((0, 0), (1, 0)), fixed=(HERE,)))
    assert [fits.on(index) is not None for index in (0, 1)] == [False, True]
