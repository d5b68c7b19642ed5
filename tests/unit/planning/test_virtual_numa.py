from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import CreateVm
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm, TemplateSource
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.capacity.hardware import can_shape_nodes
from vgpu_cfg.planning.planner import make_plan

FULL = GpuEntry(profile=(VgpuProfile.parse("grid_a100-40c"),))


def gpu(pci: str, node: int, label: str | None = None) -> dict[str, Any]:
    return {"board": "A100", "pci": pci, "node": node, "passthrough": label is not None, "label": label}


def created(gpus: tuple[GpuEntry, ...], rows: list[dict[str, Any]], **estate: Any) -> CreateVm:
    vm = DesiredVm(
        name="a",
        line="a",
        source=TemplateSource(path_or_name="ubuntu"),
        clusters=("gpu",),
        folder="training",
        cpus=16,
        memory_mib=65536,
        gpus=gpus,
    )
    observed = make_inventory({"hosts": {"esx-01": {"gpus": rows}}, **estate})
    plan = make_plan(DesiredPlan(name="demo", vcenter="vc.example", vms=(vm,)), observed, load_catalog())
    return next(change for change in plan.changes if isinstance(change, CreateVm))


def nodes(change: CreateVm) -> list[int | None]:
    return [getattr(device, "numa_node", None) for device in change.spec.devices]


def labelled(*labels: str) -> tuple[GpuEntry, ...]:
    return tuple(GpuEntry(device=DeviceEntry(label=label)) for label in labels)


LEFT, LEFT_TOO, RIGHT = "0000:21:00.0", "0000:31:00.0", "0000:e2:00.0"


def test_a_label_of_one_node_tells_the_virtual_node() -> None:
    made = created(labelled("left", "right"), [gpu(LEFT, 0, "left"), gpu(RIGHT, 1, "right")])
    assert (made.spec.settings.get("cores_per_numa_node"), nodes(made)) == (8, [0, 1])


def test_a_label_of_two_nodes_tells_none() -> None:
    made = created(labelled("any", "any"), [gpu(LEFT, 0, "any"), gpu(RIGHT, 1, "any")])
    assert (made.spec.settings.get("cores_per_numa_node"), nodes(made)) == (8, [None, None])


def test_a_vgpu_whose_gpu_is_open_is_on_no_virtual_node() -> None:
    made = created((FULL, FULL), [gpu(LEFT, 0), gpu(RIGHT, 1)])
    assert (made.spec.settings.get("cores_per_numa_node"), nodes(made)) == (8, [None, None])


def test_a_vm_on_one_node_is_one_virtual_node_and_names_none_for_its_devices() -> None:
    made = created((FULL, FULL), [gpu(LEFT, 0), gpu(LEFT_TOO, 0)])
    assert (made.spec.settings.get("cores_per_numa_node"), nodes(made)) == (16, [None, None])


@pytest.mark.parametrize(
    ("api", "version", "can"),
    [
        ("8.0.0.1", 20, True),
        ("8.0.0.1", 19, False),
        ("7.0.3.0", 20, False),
        ("8.0.0.0", 20, False),
        ("9.0.0.0", 22, True),
        ("8.0.3.0", None, False),
        ("", 21, False),
    ],
)
def test_nodes_are_stated_from_hardware_20_and_vsphere_8_on(
    api: str, version: int | None, *, can: bool
) -> None:
    assert can_shape_nodes(api, version) is can
