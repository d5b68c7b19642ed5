"""Which hosts of a cluster can be emptied, and why another cannot."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.reservations import Quotas, Spare
from vgpu_cfg.planning.pool.spare import spare_states, spares_after

CATALOG = load_catalog()
A, B = "0000:21:00.0", "0000:e2:00.0"
ANY = "any host can be evacuated (q.yaml:1)"
LOST = "not every host can be evacuated (q.yaml:1); VMs without another host: on "


def runs(host: int, *profiles: str, **more: Any) -> dict[str, Any]:
    return {
        "host": f"esx-{host}",
        "gpus": list(profiles),
        "on": [A, B][: len(profiles)],
        "memory_gib": 16,
    } | more


def estate(*vms: dict[str, Any], hosts: int = 3, cluster: Any = None, **host: Any) -> dict[str, Any]:
    gpus = [{"board": "A100", "pci": A, "node": 0}]
    return {
        "hosts": {f"esx-{number}": {"gpus": gpus, "node_gib": 64, **host} for number in range(1, hosts + 1)},
        "vms": {f"vm-{number}": vm for number, vm in enumerate(vms, 1)},
        "clusters": {"gpu": cluster or {}},
    }


def asked(hosts: int = 1, *clusters: str) -> Quotas:
    return Quotas(file="q.yaml", clusters=clusters, spare=Spare(hosts=hosts, origin="q.yaml:1"))


@pytest.mark.parametrize(
    ("found", "state"),
    [
        (estate(), ANY),
        (estate(runs(1, "grid_a100-40c"), runs(2, "grid_a100-40c")), ANY),
        (estate(*(runs(number, "grid_a100-20c") for number in (1, 2, 3))), ANY),
        (
            estate(*(runs(number, "grid_a100-40c") for number in (1, 2, 3))),
            f"{LOST}esx-1: vm-1 (no capacity for grid_a100-40c), "
            "esx-2: vm-2 (no capacity for grid_a100-40c), "
            "esx-3: vm-3 (no capacity for grid_a100-40c)",
        ),
        (
            estate(runs(1, "grid_a100-20c", memory_gib=60), runs(2, "grid_a100-20c", memory_gib=80), hosts=2),
            f"{LOST}esx-1: vm-1 (less than 60 GiB of free memory), "
            "esx-2: vm-2 (less than 80 GiB of free memory)",
        ),
        (
            estate(runs(1, "grid_a100-20c"), runs(1, "grid_a100-20c", on=[A]), hosts=1),
            f"{LOST}esx-1: vm-{{1..2}} (no other host with GPUs is usable)",
        ),
        (estate(runs(1, "grid_a100-40c"), runs(2, "grid_a100-40c", power="poweredOff"), hosts=2), ANY),
        (
            estate(
                runs(1, "grid_a100-40c"),
                runs(2, "grid_a100-40c"),
                hosts=2,
                cluster={
                    "vm_overrides": {"vm-1": {"ha_restart": "disabled"}, "vm-2": {"ha_restart": "disabled"}}
                },
            ),
            ANY,
        ),
        (estate(runs(1, "grid_a100-40c"), hosts=2, maintenance=True), ANY),
    ],
)
def test_the_spare_of_a_cluster(found: dict[str, Any], state: str) -> None:
    observed = make_inventory(found)
    (now,) = spare_states([asked()], observed, CATALOG)
    assert now.words == f"cluster gpu: {state}"


@pytest.mark.parametrize(
    ("quotas", "states"),
    [
        (
            asked(2),
            [
                "not every set of 2 hosts can be evacuated (q.yaml:1); VMs without another host: on esx-1: "
                "vm-2 (no capacity for grid_a100-40c), esx-2: vm-1 (no capacity for grid_a100-40c)"
            ],
        ),
        (asked(1, "g*"), [ANY]),
        (asked(1, "vdi"), []),
        (Quotas(file="q.yaml"), []),
    ],
)
def test_a_file_asks_for_a_spare(quotas: Quotas, states: list[str]) -> None:
    observed = make_inventory(estate(runs(1, "grid_a100-40c"), runs(2, "grid_a100-40c")))
    assert [one.state for one in spare_states([quotas], observed, CATALOG)] == states


def test_the_spare_after_hosts_are_emptied() -> None:
    observed = make_inventory(
        estate(runs(1, "grid_a100-20c"), runs(2, "grid_a100-40c"), runs(3, "grid_a100-20c"))
    )
    groups = [[], ["host-esx-1"], ["host-esx-2"]]
    (states,) = spares_after([asked()], observed, CATALOG, groups)
    assert [one.state for one in states] == [
        f"{LOST}esx-2: vm-2 (no capacity for grid_a100-40c)",
        ANY,
        ANY,
    ]
