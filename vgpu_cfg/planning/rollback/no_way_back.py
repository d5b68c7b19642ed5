"""Which changes of a plan a rollback could not undo: told before the run, where one is asked for."""

from __future__ import annotations

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.planning.described import PlanTables
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


def with_no_way_back(plan: Plan) -> Plan:
    """Return a plan that tells what of it a rollback could not undo (VG557)."""
    findings = Findings.for_plan(plan.desired)
    tables = PlanTables(plan)
    for change in plan.changes:
        for why in change.no_way_back(tables):
            findings.add(Code.NO_WAY_BACK, change.subject, f"{change.id}: {why}")
    found = tuple(one for one in findings.diagnostics() if one.code == Code.NO_WAY_BACK)
    return plan.model_copy(update={"diagnostics": (*plan.diagnostics, *found)})
