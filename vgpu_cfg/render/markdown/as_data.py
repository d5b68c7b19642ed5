"""The same runbooks as values, for programs: what stands under `kind` and `format` of their JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, Report
from vgpu_cfg.model.occasion import Occasion
from vgpu_cfg.planning.described import SettingsLookup
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.networks.network_users import switch_needs
from vgpu_cfg.render.markdown.runbook import runbook_steps
from vgpu_cfg.render.markdown.switches import SwitchView, switch_view
from vgpu_cfg.render.views.plan.findings import alike
from vgpu_cfg.render.views.run.run_steps import steps_done


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
