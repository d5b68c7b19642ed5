"""What a run came to as a whole: one word for it, and counts of what was done."""

from __future__ import annotations

from collections import Counter

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import OutcomeStatus, Report
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.views.run.host_result import host_result_counts


def run_verdict(report: Report) -> str:
    """Return DONE, WAITING (for a step by hand, or another time), FAILED or STOPPED (by its user)."""
    if report.is_interrupted:
        return "STOPPED"
    if report.has_failed:
        return "FAILED"
    return "WAITING" if report.waiting_for or report.put_off else "DONE"


def run_counts(plan: Plan, report: Report) -> list[str]:
    """Count what was done, in words: "2 made", "1 failed", "4 tasks"."""
    changes = {change.id: change for change in plan.changes}
    counts: Counter[str] = Counter()
    for outcome in report.outcomes:
        if outcome.status is OutcomeStatus.DONE:
            word = changes[outcome.change_id].done
            counts.update([word] if word else [])
        elif outcome.status is not OutcomeStatus.NOT_NEEDED and outcome.change_id not in report.waiting_for:
            counts[outcome.status.value] += 1
    words = [f"{number} {word}" for word, number in counts.items()]
    return [*host_result_counts(plan, report), *words, counted(report.tasks, "task")]
