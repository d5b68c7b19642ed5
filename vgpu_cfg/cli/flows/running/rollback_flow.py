"""How a failed run is taken back: read, planned, shown, made in the same run, told in its report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpu_cfg.changes.report import Report, Rollback
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.planning.locks import change_locks

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.execution import Journal, RunLocks
    from vgpu_cfg.model.observed.inventory import Inventory


@dataclass(frozen=True, slots=True)
class Undoing:
    """What taking a run back needs: its locks, the estate read again, a plan for it, and that carried out."""

    locks: RunLocks
    read_back: Callable[[], Inventory]
    make: Callable[[Report, Inventory], Plan]
    carry_out: Callable[[Plan], Report]
    journal: Journal
    is_json: bool


def roll_back(report: Report, undoing: Undoing) -> Report:
    """Take back what failed, and return the report with what became of it; nothing where nothing failed.

    A run that was stopped by hand is not taken back: whoever stopped it decides what comes next.
    """
    if report.is_interrupted:
        why_not = "the run was stopped by hand, and is not taken back"
        return report.model_copy(update={"rollback": Rollback(why_not=why_not)})
    if not report.has_failed:
        return report
    try:
        rollback = _rolled_back(report, undoing)
    except VgpuCfgError as error:
        rollback = Rollback(why_not=error.message)
    except KeyboardInterrupt:
        rollback = Rollback(why_not="it was stopped by hand before it began", is_interrupted=True)
    left = tuple(text for text in report.left_behind if not _is_undone(text, rollback))
    return report.model_copy(update={"rollback": rollback, "left_behind": left})


def _is_undone(text: str, rollback: Rollback) -> bool:
    """Whether a line of what a run left is about something of the rollback, which tells what is left now."""
    return any(text.startswith(f"{change.subject.name}: ") for change in rollback.changes)


def _rolled_back(report: Report, undoing: Undoing) -> Rollback:
    undoing.locks.beat()
    after = undoing.read_back()
    plan = undoing.make(report, after)
    undoing.locks.take(*change_locks(plan.changes, after))
    undoing.journal.record_rollback(plan)
    show.rollback(plan, is_json=undoing.is_json)
    rollback = Rollback(digest=plan.digest, changes=plan.changes, kept=plan.diagnostics)
    if not plan.changes:
        return rollback
    ended = undoing.carry_out(plan)
    became = {
        "outcomes": ended.outcomes,
        "left_behind": ended.left_behind,
        "is_interrupted": ended.is_interrupted,
    }
    return rollback.model_copy(update=became)
