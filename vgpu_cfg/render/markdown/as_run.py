"""What a run did, as a document for the file: every step with times, result, tasks and what was read back."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, Report
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.occasion import NO_OCCASION, Occasion
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.render.markdown.quoting import environment, tidy
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
    """Write what became of a plan as Markdown.

    `report` is None where a run never came to its end: then the journal's events tell how far it got.
    `by` says who ran it from where, `occasion` what for, `after` is a reading made after the run.
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
    return f"{len(row.readings) - len(row.unsettled)} of {len(row.readings)} as wanted"


def _verdict(plan: Plan, report: Report | None) -> str:
    if report is None:
        return "The run broke off: what is not ended below may have gone on in vCenter."
    words = "done"
    problems = [problem for canary in report.canaries for problem in canary.problems]
    if report.failed:
        words = f"{counted(len(report.failed), 'step')} failed"
    elif problems:
        words = f"stopped, as a canary was not as planned: {problems[0]}"
    elif report.is_interrupted:
        words = "stopped by its user"
    elif report.waiting_for:
        words = f"waits for {counted(len(report.waiting_for), 'step')} by hand"
    return f"{counted(len(plan.changes), 'step')}, {counted(report.tasks, 'task')} in vCenter: {words}."
