"""Whose the use of GPUs is, and who is idle by it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.choices import UseBy, UseSort
from vgpu_cfg.model.observed.gpu_use import GpuUse, PastUse, UseReading
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.pool.gpus import pooled_gpus
from vgpu_cfg.planning.pool.summary import read_pool, reclaim_steps
from vgpu_cfg.planning.pool.use import use_rows
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.text.pool.use import render_use
from vgpu_cfg.render.views.estate.inventory import UseTable

A, B = "0000:21:00.0", "0000:41:00.0"
END = datetime(2026, 1, 5, 8, tzinfo=UTC)
CATALOG = load_catalog()


def vm(profile: str, on: str, cpu_percent: float = 25, **more: Any) -> dict[str, Any]:
    cpu = {"cpu_mhz": int(cpu_percent * 200), "max_cpu_mhz": 20_000}
    return {"host": "esx-01", "gpus": [profile], "on": [on], "memory_gib": 16} | cpu | more


def estate(means: dict[str, float], **vms: dict[str, Any]) -> Inventory:
    """Return an estate whose GPUs were so busy; one that is not named is not measured."""
    gpus = [{"board": "A100D", "pci": pci, "node": 0} for pci in (A, B)]
    found = make_inventory({"hosts": {"esx-01": {"gpus": gpus}}, "vms": vms})
    (host,) = found.hosts
    past = {
        "peak_percent": 100,
        "since": END - timedelta(days=7),
        "until": END,
        "samples": 336,
    }
    uses = [
        GpuUse(
            host_moid=host.moid,
            pci_id=pci,
            utilization_percent=mean,
            memory_used_mib=1024,
            past=PastUse.model_validate(past | {"average_percent": mean}),
        )
        for pci, mean in means.items()
    ]
    return found.model_copy(update={"gpu_use": UseReading(gpus=tuple(uses))})


def idle(observed: Inventory) -> list[tuple[str, float | None]]:
    return [
        (one.vm, one.past.average_percent if one.past else None) for one in read_pool(observed, CATALOG).idle
    ]


@pytest.mark.parametrize(
    ("mean", "cpu_percent", "found"),
    [
        (0.2, 25.0, [("a", 0.2)]),  # a loop that polls keeps a CPU busy, and no GPU
        (60.0, 0.1, []),  # its GPU works: little CPU proves nothing
        (60.0, 25.0, []),
        (None, 0.1, [("a", None)]),  # not measured: the CPUs are a hint
        (None, 25.0, []),
    ],
)
def test_a_vm_alone_on_its_gpu_is_judged_by_it(
    mean: float | None, cpu_percent: float, found: list[tuple[str, float | None]]
) -> None:
    means = {} if mean is None else {A: mean}
    assert idle(estate(means, a=vm("grid_a100d-80c", A, cpu_percent))) == found


@pytest.mark.parametrize(
    ("mean", "hours", "found"),
    [
        (0.5, 1, []),  # half a percent of a week is 50 minutes: it may have worked all the time
        (0.5, 6 * 24, [("a", 0.5)]),
        (0.0, 1, [("a", 0.0)]),
        (0.0, 0.5, []),  # it has just begun
    ],
)
def test_a_vm_is_not_judged_by_days_before_it_was_on(
    mean: float, hours: float, found: list[tuple[str, float]]
) -> None:
    observed = estate({A: mean}, a=vm("grid_a100d-80c", A, uptime=int(hours * 3600)))
    assert idle(observed) == found


def test_of_a_shared_gpu_low_use_bounds_all_and_high_use_blames_nobody() -> None:
    two = {"a": vm("grid_a100d-40c", A), "b": vm("grid_a100d-40c", A, 0.1)}
    assert idle(estate({A: 0.3}, **two)) == [("a", 0.3), ("b", 0.3)]
    assert idle(estate({A: 70.0}, **two)) == [("b", None)]


def test_a_vm_is_as_idle_as_the_busiest_of_its_gpus() -> None:
    both = vm("grid_a100d-80c", A) | {"gpus": ["grid_a100d-80c"] * 2, "on": [A, B]}
    assert idle(estate({A: 0.0, B: 50.0}, a=both)) == []
    assert idle(estate({A: 0.0, B: 0.5}, a=both)) == [("a", 0.5)]
    assert idle(estate({A: 0.0}, a=both)) == []  # of one nothing is known


def test_what_would_be_taken_back_names_whom_to_ask() -> None:
    observed = estate({A: 0.0, B: 0.0}, a=vm("grid_a100d-80c", A), b=vm("grid_a100d-40c", B, mark="hvd/b"))
    first, second = reclaim_steps(read_pool(observed, CATALOG))
    assert (first.ask, first.then) == ("the owner of /dc1/vm/training", "shut down the guest in vCenter")
    assert second.then == "`power: false` in the plan file of hvd, then `vgpu-cfg apply`"
    assert reclaim_steps(read_pool(estate({A: 80.0}, a=vm("grid_a100d-80c", A)), CATALOG)) == ()


def test_use_belongs_to_whom_a_gpu_is_given_alone() -> None:
    observed = estate(
        {A: 10.0, B: 30.0},
        a=vm("grid_a100d-40c", A, mark="one/a"),
        b=vm("grid_a100d-40c", A, mark="two/b"),
        c=vm("grid_a100d-80c", B, mark="two/c"),
    )
    gpus = pooled_gpus(observed, CATALOG)

    def told(by: UseBy) -> dict[str, tuple[float | None, int]]:
        return {row.name: (row.utilization_percent, row.shared) for row in use_rows(gpus, observed, by)}

    assert told(UseBy.GPU) == {f"esx-01 {A}": (10.0, 0), f"esx-01 {B}": (30.0, 0)}
    assert told(UseBy.VM) == {"a": (None, 1), "b": (None, 1), "c": (30.0, 0)}
    assert told(UseBy.PLAN) == {"one": (None, 1), "two": (30.0, 1)}
    assert told(UseBy.OWNER) == {"": (20.0, 0)}


def test_rows_are_sorted_with_the_unmeasured_last() -> None:
    observed = estate({A: 10.0, B: 30.0}, a=vm("grid_a100d-40c", A), b=vm("grid_a100d-80c", B))
    pool = read_pool(observed, CATALOG)
    rows = use_rows(pool.gpus, observed, UseBy.VM)

    def order(sort: UseSort) -> list[str]:
        lines = plain(render_use(pool, UseTable(rows, UseBy.VM, sort), 100)).splitlines()
        return [line.split()[0] for line in lines if line.split()[:1] in (["a"], ["b"])]

    assert (order(UseSort.USE), order(UseSort.NAME)) == (["b", "a"], ["a", "b"])


def test_what_is_at_rest_is_counted_and_a_window_is_never_overfull() -> None:
    observed = estate({A: 10.0, B: 0.0}, a=vm("grid_a100d-80c", A), b=vm("grid_a100d-80c", B))
    pool = read_pool(observed, CATALOG)
    table = UseTable(use_rows(pool.gpus, observed, UseBy.VM), UseBy.VM, UseSort.USE)
    for height in (6, 7, 20):
        lines = plain(render_use(pool, table, 100, height=height)).splitlines()
        assert len(lines) <= height
        assert [line.split()[0] for line in lines if " %" in line] == ["a", "b"][: height - 5]
        assert any("1 more row" in line for line in lines) == (height == 6)


def test_nothing_measured_is_said_and_is_not_zero() -> None:
    observed = estate({}).model_copy(update={"gpu_use": UseReading(unread="no host tells it")})
    pool = read_pool(observed, CATALOG)
    text = plain(render_use(pool, UseTable(use_rows(pool.gpus, observed, UseBy.GPU)), 100))
    assert text.split() == ["USE", "not", "measurable:", "no", "host", "tells", "it"]
