"""Each case planned once: its plan, its estate and its options, for every test that looks at them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.plans.estate import make_inventory
from tests.plans.guest_rows import with_guests
from tests.plans.simulator import carry_out, fullest
from tests.plans.tables import case_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.settings.quotas import read_quotas

FOLDER = TemporaryDirectory(prefix="vgpu-cfg-cases-")
"""Where plan files are written, one over the other; it goes with the process."""

QUOTAS = "quotas.yaml"
"""A case's file of this name holds the shares that its plan is held to."""


@cache
def desired_of(name: str) -> DesiredPlan:
    """Read a case's plan as a file: what is written in JSON is YAML."""
    case = case_of(name)
    for left in Path(FOLDER.name).glob("vcenter-*.yaml"):
        left.unlink()
    for file, text in case.files.items():
        (Path(FOLDER.name) / file).write_text(text, encoding="utf-8")
    path = Path(FOLDER.name) / "plan.yaml"
    path.write_text(json.dumps(case.plan, ensure_ascii=False), encoding="utf-8")
    desired = load_plan(path).desired
    if QUOTAS not in case.files:
        return desired
    shares = read_quotas(Path(FOLDER.name) / QUOTAS, load_catalog())
    placed = [one.model_copy(update={"origin": Path(one.origin).name}) for one in shares.shares]
    pools = [one.model_copy(update={"origin": Path(one.origin).name}) for one in shares.licences]
    update: dict[str, Any] = {"shares": tuple(placed), "licences": tuple(pools)}
    if shares.spare is not None:
        origin = Path(shares.spare.origin).name
        update["spare"] = shares.spare.model_copy(update={"origin": origin})
    return desired.model_copy(update={"quotas": (shares.model_copy(update=update),)})


@cache
def inventory_of(name: str) -> Inventory:
    estate = case_of(name).estate
    return with_guests(desired_of(name), make_inventory(estate), estate.get("vms") or {})


def options_of(name: str) -> PlanOptions:
    rows: dict[str, Any] = dict(case_of(name).options)
    rows.update({key: tuple(rows[key]) for key in ("only", "delete") if key in rows})
    return PlanOptions(**rows)


@cache
def plan_of(name: str) -> Plan:
    return make_plan(desired_of(name), inventory_of(name), load_catalog(), options_of(name))


@cache
def after_of(name: str) -> Inventory:
    """Return the estate after a case's plan, if ESXi chooses the fullest GPU for each vGPU."""
    return carry_out(plan_of(name), inventory_of(name), fullest, options_of(name).fingerprints)


def without_kinds(observed: Inventory) -> Inventory:
    """Return an estate as it is read where kinds of hosts were not asked."""
    untold = ("profiles", "device_groups", "max_hardware_version", "max_vgpus_by_hardware_version")
    update = {name: Host.model_fields[name].get_default(call_default_factory=True) for name in untold}
    hosts = tuple(host.model_copy(update=update) for host in observed.hosts)
    return observed.model_copy(update={"hosts": hosts, "has_kinds": False})
