"""A plan as one page: the estate before and after it, refusals with reasons, its course, every change."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from vgpu_cfg.changes.plan import Diagnostic, Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.sync import is_in_sync, waits_for
from vgpu_cfg.render.page.frame import Tile, moment_words, render_frame
from vgpu_cfg.render.views.pictures.plan_picture import PlanPicture
from vgpu_cfg.render.views.plan.disruption import disruption_rows
from vgpu_cfg.render.views.plan.whole import error_count, plan_counts
from vgpu_cfg.render.views.run.timeline import plan_timeline


def render_plan_page(plan: Plan, told: dict[str, Any], picture: PlanPicture) -> str:
    """Write the page of a plan and of its JSON; any name in it stays text."""
    place = ", ".join(part for part in (plan.target.address, plan.target.datacenter) if part)
    return render_frame(
        "plan",
        title=f"{plan.name}: plan {plan.digest}",
        about=f"{place}, read {moment_words(plan.read_at)}",
        tiles=tuple(_tiles(plan)),
        body="plan.html.j2",
        shared=("wiring", "estate", "changes", "turns"),
        data={
            "kind": "plan-page",
            "format": 1,
            "told": told,
            "before": asdict(picture.before),
            "after": {
                "hosts": {name: asdict(host) for name, host in picture.changed_hosts.items()},
                "vms": [asdict(vm) for vm in picture.vms_after],
                "totals": asdict(picture.totals_after),
            },
            "marks": [asdict(mark) | {"sign": mark.sign} for mark in picture.marks],
        },
        more={
            "plan": plan,
            "errors": _refused(plan),
            "fixes": told["fixes"],
            "marks": picture.marks,
            "disrupted": tuple(disruption_rows(plan)),
            "findings": plan.diagnostics,
            "line": plan_timeline(plan),
            "unit": "turns",
        },
    )


def _tiles(plan: Plan) -> list[Tile]:
    """Take the words of the plan's totals apart: "2 VMs new" is 2, VMs new."""
    tiles = []
    if plan.errors:
        errors = counted(error_count(plan.diagnostics), "error")
        tiles.append(_tile(errors, "must be fixed before any changes are made"))
    if not plan.changes:
        verdict = (
            waits_for(plan) or "in sync" if is_in_sync(plan) else "" if plan.errors else "differences found"
        )
        return [*tiles, Tile("0", "changes", verdict)]
    *words, tasks = plan_counts(plan)
    blocked = f"{len(plan.blocked)} blocked; {tasks}" if plan.blocked else tasks
    tiles.append(_tile(counted(len(plan.changes), "change"), blocked))
    return [*tiles, *(_tile(one) for one in words)]


def _tile(words: str, about: str = "") -> Tile:
    value, _, title = words.partition(" ")
    return Tile(value, title, about)


def _refused(plan: Plan) -> list[tuple[Diagnostic, int]]:
    """Return each error with how many changes of its subject are blocked."""
    blocked = set(plan.blocked)
    counts: dict[tuple[str, str], int] = {}
    for change in plan.changes:
        key = (change.subject.kind, change.subject.name)
        counts[key] = counts.get(key, 0) + (change.id in blocked)
    return [
        (found, counts.get((found.subject.kind, found.subject.name), 0))
        for found in plan.diagnostics
        if found.severity is Severity.ERROR
    ]
