"""The rollback of a failed run: read, plan, show, carry out in the same run, and report.

A rollback that is interrupted is finished by the next run of the same command.
"""

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
    from vgpu_cfg.cli.kept.attempts import KeptAttempt
    from vgpu_cfg.execution import Journal, RunLocks
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.rollback.attempt import Attempt


@dataclass(frozen=True, slots=True)
class Undoing:
    """The means of a rollback: the run's locks, readings of the estate, a plan, a way to carry it out.

    `attempt` is the attempt to undo, and `kept` the place where it outlives the process.
    """

    locks: RunLocks
    read_back: Callable[[], Inventory]
    attempt: Attempt
    kept: KeptAttempt
    make: Callable[[Attempt, Inventory], Plan]
    carry_out: Callable[[Plan], Report]
    journal: Journal
    is_json: bool


def roll_back(report: Report, undoing: Undoing) -> Report:
    """Undo a run that failed, and return the report with the result.

    A stopped run is not undone: the user decides on the next step.
    """
    attempt = undoing.attempt.ended(report)
    undoing.kept.keep(attempt)
    if report.is_interrupted:
        why_not = "the user stopped the run, so it was not rolled back"
        return report.model_copy(update={"rollback": Rollback(why_not=why_not)})
    if not report.has_failed:
        undoing.kept.forget()
        return report
    try:
        rollback = _rolled_back(attempt, undoing)
    except VgpuCfgError as error:
        rollback = Rollback(why_not=error.message)
    except KeyboardInterrupt:
        rollback = Rollback(why_not="the user stopped the rollback before it began", is_interrupted=True)
    if rollback.is_whole:
        undoing.kept.forget()
    # The rollback reports what is left of its own subjects.
    undone = {change.subject.name for change in rollback.changes}
    left = tuple(one for one in report.left_behind if one.name not in undone)
    return report.model_copy(update={"rollback": rollback, "left_behind": left})


def _rolled_back(attempt: Attempt, undoing: Undoing) -> Rollback:
    undoing.locks.beat()
    after = undoing.read_back()
    plan = undoing.make(attempt, after)
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
