"""The record of a run, as a document for the file: every step with times, result, tasks and values read back.

The same runbooks as values, for programs: the content of their JSON after `kind` and `format`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, Report
from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.planning.described import SettingsLookup
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.networks.network_users import switch_needs
from vgpu_cfg.render.markdown.quoting import environment, tidy
from vgpu_cfg.render.markdown.runbook import runbook_steps
from vgpu_cfg.render.markdown.switches import SwitchView, switch_view
from vgpu_cfg.render.views.plan.whole import alike
from vgpu_cfg.render.views.run.host_result import HostRow, host_rows, standing_text
from vgpu_cfg.render.views.run.run_steps import moment_text, steps_done


def render_as_run(
    plan: Plan,
    journal_events: Sequence[Event],
    report: Report | None,
    *,
    by: str = "",
    occasion: Occasion = NO_OCCASION,
    after: Inventory | None = None,
) -> str:
    """Write the outcome of a plan as Markdown.

    `report` is None if a run never came to its end: then the journal's events show its progress. `by` is the
    user and machine, `occasion` the purpose, `after` a reading made after the run.
    """
    steps = steps_done(plan, journal_events, report)
    times = [event.at for event in journal_events]
    rows = host_rows(plan, report, after) if report is not None else ()
    waiting = [
        step
        for step in of_kind(plan.changes, ManualStep)
        if report is not None and step.id in report.waiting_for
    ]
    text = (
        environment()
        .get_template("as_run.md.j2")
        .render(
            plan=plan,
            report=report,
            by=by,
            occasion=occasion.text,
            began=moment_text(min(times)) if times else "",
            ended=moment_text(max(times)) if times else "",
            took=duration((max(times) - min(times)).total_seconds()) if times else "",
            verdict=_verdict(plan, report),
            standing=standing_text(plan, report, rows) if report is not None else "",
            steps=steps,
            hosts=[(row, _read_back(row), duration(row.seconds) if row.seconds else "") for row in rows],
            waiting=waiting,
        )
    )
    return tidy(text)


def _read_back(row: HostRow) -> str:
    if not row.readings:
        return ""
    return f"{len(row.readings) - len(row.unsettled)} of {len(row.readings)} as expected"


def _verdict(plan: Plan, report: Report | None) -> str:
    if report is None:
        return "The run was interrupted. Steps without an end time may have completed in vCenter."
    words = "done"
    problems = [problem for canary in report.canaries for problem in canary.problems]
    if report.failed:
        words = f"{counted(len(report.failed), 'step')} failed"
    elif problems:
        words = f"stopped because the canary did not match the plan: {problems[0]}"
    elif report.is_interrupted:
        words = "stopped by the user"
    elif report.waiting_for:
        words = f"waiting for {counted(len(report.waiting_for), 'step')} to be completed manually"
    return f"{counted(len(plan.changes), 'step')}, {counted(report.tasks, 'task')} in vCenter: {words}."


def runbook_data(
    plan: Plan,
    settings_lookup: SettingsLookup,
    views: Mapping[str, HostView],
    *,
    apply_command: str = "",
    occasion: Occasion,
) -> dict[str, Any]:
    """Return the steps of a plan, each with its parts, as `render_runbook` writes them."""
    steps = runbook_steps(plan, settings_lookup, views, apply_command=apply_command)
    rows = ("what", "before", "after")
    return {
        "plan": plan.name,
        "digest": plan.digest,
        "server": plan.target.address,
        "datacenter": plan.target.datacenter,
        "read_at": plan.read_at.isoformat(),
        "occasion": asdict(occasion),
        "findings": [found.model_dump(mode="json") for found in alike(plan.diagnostics)],
        "steps": [
            asdict(step)
            | {
                "parts": [
                    asdict(part) | {"rows": [dict(zip(rows, row, strict=True)) for row in part.rows]}
                    for part in step.parts
                ]
            }
            for step in steps
        ],
        "switches": [_switch(switch_view(needs)) for needs in switch_needs(plan)],
    }


def _switch(view: SwitchView) -> dict[str, Any]:
    """Return a network of the physical switch: what its ports need, and the proposals."""
    return {
        **asdict(view.needs),
        "why_not_proposed": view.why_not,
        "proposals": [
            {"system": one.system, "lines": one.lines, "documents": [name for name, _ in one.documents]}
            for one in view.proposals
        ],
    }


def as_run_data(
    plan: Plan, events: Sequence[Event], report: Report | None, *, by: str, run: str, occasion: Occasion
) -> dict[str, Any]:
    """Return what one run did; `report` is None where it never came to its end."""
    times = [event.at for event in events]
    return {
        "plan": plan.name,
        "digest": plan.digest,
        "run": run,
        "by": by,
        "occasion": asdict(occasion),
        "began": min(times).isoformat() if times else None,
        "ended": max(times).isoformat() if times else None,
        "is_ended": report is not None,
        "steps": [asdict(step) for step in steps_done(plan, events, report)],
    }
