"""The moves that are proposed are the fewest; without a doubt they can be made and the plan applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.properties.estates import GPUS, PROFILES, Wanted, open_estate, plan_rows
from tests.properties.moving import desk, fewest_moves
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.moves.rebalance import RebalanceResult

Choice = Literal["least_loaded", "lowest", "random"]
CHOICES = ("least_loaded", "lowest", "random")
WINDOW = {"pciPassthru.use64bitMMIO": "TRUE", "pciPassthru.64bitMMIOSizeGB": "1024"}

SLOW = settings(
    max_examples=examples(10, 20),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


@st.composite
def crowded(draw: st.DrawFn) -> tuple[dict[str, Any], tuple[Wanted, ...]]:
    """Make two or three hosts of up to three like GPUs with few VMs, and wish for much of a GPU."""
    kind = draw(st.sampled_from(["same", "mixed", "mig"]))
    profiles = PROFILES[kind]
    hosts: list[dict[str, Any]] = []
    vms: list[dict[str, Any]] = []
    for number in range(draw(st.integers(2, 3))):
        gpus = [
            GPUS[kind] | {"pci_id": f"0000:{0x20 + place:02x}:00.0"}
            for place in range(draw(st.integers(1, 3 if number == 0 else 2)))
        ]
        hosts.append(host(f"esx-{number}.lab", gpus))
        for place, gpu in enumerate(gpus):
            if len(vms) < 5 and draw(st.integers(0, 3)):
                profile = draw(st.sampled_from(profiles[2:]))
                vms.append(vm(f"other-{number}-{place}", f"esx-{number}.lab", profile, gpu["pci_id"]))
    line = Wanted((draw(st.sampled_from(profiles[:2])),), draw(st.integers(1, 3)), memory_gib=8)
    return estate(hosts, vms), (line,)


def estate(hosts: list[dict[str, Any]], vms: list[dict[str, Any]], **cluster: Any) -> dict[str, Any]:
    return {
        "about": "made for moves",
        "vcenter": {"settings": {"vgpu.hotmigrate.enabled": True}},
        "clusters": [{"name": "gpu", "hosts": hosts, **cluster}],
        "folders": ["training"],
        "templates": [{"name": "ubuntu", "hardware_version": 21, "cpus": 2, "memory": "8GiB"}],
        "vms": vms,
    }


def host(name: str, gpus: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"name": name, "gpus": gpus, "memory": "1TiB", "numa_nodes": 1, "cpu": {"sockets": 1}} | more


def vm(name: str, on: str, profile: str, gpu: str, **more: Any) -> dict[str, Any]:
    devices = [{"profile": profile, "on": gpu}]
    row = {"name": name, "host": on, "memory": "4GiB", "cpus": 1, "extra_config": WINDOW, "gpus": devices}
    return row | more


def desired_of(rows: dict[str, Any], folder: Path) -> DesiredPlan:
    path = folder / "plan.yaml"
    path.write_text(json.dumps(rows), encoding="utf-8")
    return load_plan(path).desired


@SLOW
@given(crowded())
def test_no_fewer_moves_would_do(tmp_path: Path, case: tuple[dict[str, Any], tuple[Wanted, ...]]) -> None:
    made, wanted = case
    with desk(open_estate(made), desired_of(plan_rows(wanted), tmp_path)) as seat:
        found = seat.propose()
    fewest = fewest_moves(made, wanted, 3)
    if fewest is None:
        assert found.outcome in (RebalanceResult.NONE, RebalanceResult.LIMIT)
    elif fewest == 0:
        assert found.outcome is RebalanceResult.FITS
    else:
        assert (found.outcome, len(found.moves)) == (RebalanceResult.MOVES, fewest)


@pytest.mark.parametrize("choice", CHOICES)
@SLOW
@given(crowded())
def test_what_is_proposed_without_doubt_can_be_made(
    choice: Choice, tmp_path: Path, case: tuple[dict[str, Any], tuple[Wanted, ...]]
) -> None:
    made, wanted = case
    with desk(open_estate(made, gpu_choice=choice), desired_of(plan_rows(wanted), tmp_path)) as seat:
        found = seat.propose()
        if found.moves and not found.uncertain_starts:
            seat.make(found.moves)
            seat.apply()
