"""Placement against a search through everything, and its plans against the lab, which judges on its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings

from tests.extent import examples
from tests.fakes.fake_locks import undisputed
from tests.plans.estate import PLAN_ID
from tests.properties.estates import Wanted, cases, is_feasible, open_estate, plan_rows
from tests.properties.moving import StandingClock
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.execution import Run, RunOptions
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

CATALOG = load_catalog()
NO_PLACE = {f"VG{number}" for number in (102, 103, 104, 105, 106, 107, 108, 138, 139, 143, 301, 305, 504)}
"""What says that a VM fits nowhere."""
MAY_STRAND = "VG116"

Case = tuple[dict[str, Any], tuple[Wanted, ...]]

SLOW = settings(
    max_examples=examples(15, 25),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
        HealthCheck.function_scoped_fixture,
    ],
)


def desired_plan(wanted: tuple[Wanted, ...], folder: Path) -> DesiredPlan:
    path = folder / "plan.yaml"
    path.write_text(json.dumps(plan_rows(wanted)), encoding="utf-8")
    return load_plan(path).desired.model_copy(update={"id": PLAN_ID})


def planned(lab: Lab, desired: DesiredPlan, reader: VCenterReader) -> Plan:
    del lab
    scope = ReadScope(
        plan=desired.identity,
        vm_names=frozenset(vm.name for vm in desired.vms),
        template_names=frozenset({"ubuntu"}),
    )
    return make_plan(desired, reader.read_inventory(scope), CATALOG, PlanOptions())


@SLOW
@given(cases())
def test_a_plan_is_made_exactly_where_one_exists(tmp_path: Path, case: Case) -> None:
    estate, wanted = case
    lab = open_estate(estate)
    desired = desired_plan(wanted, tmp_path)
    with Session(lab, "lab", LAB_USER, LAB_PASSWORD) as session:
        plan = planned(lab, desired, VCenterReader(session, StandingClock()))
    codes = {found.code for found in plan.errors}
    assert codes <= {*NO_PLACE, MAY_STRAND}, plan.errors
    assert (not codes - {MAY_STRAND}) == is_feasible(lab, wanted)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("choice", ["least_loaded", "lowest", "random"])
@SLOW
@given(cases(most_hosts=3, most_gpus=4))
def test_what_is_planned_powers_on_whichever_gpu_is_chosen(
    choice: Literal["least_loaded", "lowest", "random"],
    tmp_path: Path,
    case: Case,
) -> None:
    estate, wanted = case
    lab = open_estate(estate, gpu_choice=choice)
    desired = desired_plan(wanted, tmp_path)
    with Session(lab, "lab", LAB_USER, LAB_PASSWORD) as session:
        reader = VCenterReader(session, StandingClock())
        plan = planned(lab, desired, reader)
        if plan.errors:
            return
        report = Run(
            plan,
            reader,
            VCenterWriter(session),
            StandingClock(),
            locks=undisputed(),
            options=RunOptions(parallel=8, per_host=4),
        ).carry_out()
        assert not report.failed, report.failed
        names = {vm.name for vm in desired.vms}
        running = {vm.name for vm in lab.state.all(VirtualMachine) if vm.is_on}
        assert names <= running
        assert not planned(lab, desired, reader).changes
