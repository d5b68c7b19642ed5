"""In a cluster that is half upgraded, a VM goes to a host that can run it whenever one of them could alone.

Brute force: the same plan on an estate with one host of the cluster after the other.
"""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.extent import examples
from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.planner import make_plan

CATALOG = load_catalog()
RELEASES = ("7.0.3", "8.0.0", "8.0.3", "9.0.0")
DRIVERS = ("535.183.04", "550.90.05", "570.124.03", "580.95.02")
PROFILES = ("grid_a100-40c", "grid_a100-10c", "grid_a100-1-5c", "grid_a100-7-40c")


@st.composite
def hosts(draw: st.DrawFn) -> dict[str, Any]:
    """Make the hosts of a cluster between two states: releases, drivers, MIG."""
    rows: dict[str, Any] = {}
    for number in range(draw(st.integers(2, 5))):
        kind = draw(st.sampled_from(("time_sliced", "mig")))
        gpus = [
            {"board": "A100", "pci": f"0000:{address}:00.0", "node": 0, "sharing": kind}
            for address in ("21", "e2")[: draw(st.integers(1, 2))]
        ]
        driver = draw(st.sampled_from(DRIVERS))
        rows[f"esx-{number}"] = {
            "version": draw(st.sampled_from(RELEASES)),
            "gpus": gpus,
            "facts": {"software": {"NVD-AIE_ESXi_8.0.0_Driver": f"{driver}-1OEM"}},
        }
    return rows


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    """Make one VM: its hardware version by its template, its vGPUs, its guest's driver."""
    wanted: dict[str, Any] = {
        "name": "a",
        "template": draw(st.sampled_from(("old", "ubuntu", "new"))),
        "cluster": "gpu",
        "folder": "training",
        "cpus": 4,
        "memory": "16GiB",
        "gpus": [{"profile": draw(st.sampled_from(PROFILES)), "count": draw(st.sampled_from((1, 1, 2)))}],
    }
    if draw(st.booleans()):
        branch = draw(st.sampled_from(("535_535.183.06", "570_570.124.06", "580_580.95.05")))
        package = f"https://repo.example/nvidia-linux-grid-{branch}_amd64.deb"
        wanted["guest"] = {"driver": {"package": package, "sha256": "a" * 64}}
    return wanted


TEMPLATES = {"old": {"hardware": 17}, "ubuntu": {"hardware": 19}, "new": {"hardware": 21}}


def planned(rows: dict[str, Any], wanted: dict[str, Any], folder: Path) -> Plan:
    file = folder / "plan.yaml"
    header = {"version": 1, "name": "demo", "vcenter": "vc.example"}
    file.write_text(json.dumps(header | {"vms": [wanted]}), encoding="utf-8")
    observed = make_inventory({"hosts": rows, "templates": TEMPLATES})
    return make_plan(load_plan(file).desired, observed, CATALOG)


def errors(plan: Plan) -> list[str]:
    return [f"{one.code} {one.message}" for one in plan.diagnostics if one.severity is Severity.ERROR]


@settings(max_examples=examples(30, 300))
@given(hosts(), wishes())
def test_a_vm_goes_to_a_host_that_could_run_it_alone(rows: dict[str, Any], wanted: dict[str, Any]) -> None:
    with TemporaryDirectory() as folder:
        alone = {name: errors(planned({name: row}, wanted, Path(folder))) for name, row in rows.items()}
        if not all(alone.values()):
            plan = planned(rows, wanted, Path(folder))
            assert not errors(plan), alone
            (place,) = plan.placements
            assert not alone[place.host_name]
