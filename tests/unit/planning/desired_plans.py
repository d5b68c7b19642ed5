"""Desired plans in few words, for tests that need no plan file."""

from __future__ import annotations

from typing import Any

from tests.plans.estate import PLAN_ID, make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan

GPU = "0000:21:00.0"
STATED = frozenset({"cpus", "memory", "gpus", "folder", "cluster", "template"})


def vm(name: str, *profiles: str, **more: Any) -> DesiredVm:
    """Desire a VM on the cluster `gpu`; `stated` names more keys that its plan file states."""
    stated = STATED | frozenset(more.pop("stated", ()))
    row: dict[str, Any] = {
        "name": name,
        "line": name,
        "source": {"kind": "template", "path_or_name": "ubuntu"},
        "clusters": ("gpu",),
        "folder": "training",
        "cpus": 16,
        "memory_mib": 65_536,
        "gpus": tuple({"profile": (profile,)} for profile in profiles),
        "managed": stated,
    }
    return DesiredVm.model_validate(row | more)


def plan_for(*vms: DesiredVm, **more: Any) -> DesiredPlan:
    return DesiredPlan.model_validate(
        {"name": "demo", "id": PLAN_ID, "vcenter": "vc.example", "vms": vms} | more
    )


def estate(vms: dict[str, Any] | None = None, **more: Any) -> Inventory:
    """Observe one host `esx-01` with one A100."""
    host = {"gpus": [{"board": "A100", "pci": GPU, "node": 0}]}
    return make_inventory({"hosts": {"esx-01": host}, "vms": vms or {}} | more)


def own(*profiles: str, **more: Any) -> dict[str, Any]:
    """Observe a running VM of the plan."""
    return {"host": "esx-01", "mark": True, "gpus": list(profiles), "on": [GPU] if profiles else []} | more


def planned(desired: DesiredPlan, observed: Inventory, **options: Any) -> Plan:
    return make_plan(desired, observed, load_catalog(), PlanOptions(**options))


def codes(found: Plan | tuple[Diagnostic, ...]) -> list[str]:
    return [one.code for one in (found.diagnostics if isinstance(found, Plan) else found)]
