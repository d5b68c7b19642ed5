"""How cordoning reads: a line for each host and GPU, and what went wrong."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.model.plan.change import Edit, Plan
from vgpu_cfg.model.plan.report import OutcomeStatus, Report
from vgpu_cfg.render.layout.lines import fold, hanging

_SETTLED = (OutcomeStatus.DONE, OutcomeStatus.NOT_NEEDED)


def render_upkeep(plan: Plan, report: Report | None, width: int, *, journal: str = "") -> list[Text]:
    """Lay out what was cordoned or given back; without a report nothing was to be done."""
    if report is None:
        return [Text(f"nothing to {plan.name}: it is so already")]
    done = {outcome.change_id for outcome in report.outcomes if outcome.status in _SETTLED}
    lines: list[Text] = []
    for change in plan.changes if report is not None else ():
        for edit in change.edits if change.id in done else ():
            lines += fold(Text(_told(change.subject.name, edit)), width, hang=2)
    for outcome in report.failed:
        lines += fold(Text(f"{outcome.change_id} failed: {outcome.message}", "red"), width, hang=2)
        lines += hanging("do", outcome.remedy, width, style="bold") if outcome.remedy else []
    return (
        [*lines, *hanging("LOG", journal, width, indent=0, label_width=6, style="dim")] if journal else lines
    )


def _told(host: str, edit: Edit) -> str:
    what = f"{host} {edit.key.removeprefix('cordon')}".replace("  ", " ").rstrip()
    if edit.after is None:
        return f"{what}: given back; it was cordoned: {edit.before}"
    before = f"; before: {edit.before}" if edit.before else ""
    return f"{what}: cordoned: {edit.after}{before}"
