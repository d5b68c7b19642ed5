"""What became of the VMs of a run: how each stands now, its tasks and its time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus, Report
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.render.views.guest_status import staged_status
from vgpu_cfg.render.views.status import VmRow, gpus_by_vm, make_row


@dataclass(frozen=True, slots=True)
class ResultRow:
    """What became of one VM: how it stands now (None where it is gone or was not read), tasks and time."""

    name: str
    status: OutcomeStatus
    vm: VmRow | None
    tasks: int
    seconds: float


def result_rows(plan: Plan, report: Report, after: Inventory | None) -> tuple[ResultRow, ...]:
    """Make a row for each VM that the run was about, in the plan's order."""
    holders = gpus_by_vm(after) if after is not None else {}
    moids = {outcome.subject.name: outcome.vm_moid for outcome in report.outcomes if outcome.vm_moid}
    stages = {change.vm.name: change for change in of_kind(plan.changes, StageGuest)}
    by_vm: dict[str, list[Outcome]] = {}
    for outcome in report.outcomes:
        if outcome.subject.kind == "vm":
            by_vm.setdefault(outcome.subject.name, []).append(outcome)
    rows = []
    for name, outcomes in by_vm.items():
        vm = after.vm_by_moid.get(moids.get(name, "")) if after is not None else None
        row = make_row(vm, after, holders) if vm is not None and after is not None else None
        if row is not None and vm is not None and name in stages:
            row = replace(row, guest=staged_status(vm, stages[name]))
        rows.append(
            ResultRow(
                name=name,
                status=_worst(outcomes),
                vm=row,
                tasks=sum(len(outcome.tasks) for outcome in outcomes),
                seconds=seconds_of(outcomes),
            )
        )
    order = {change.subject.name: index for index, change in reversed(tuple(enumerate(plan.changes)))}
    return tuple(sorted(rows, key=lambda row: order.get(row.name, len(order))))


def _worst(outcomes: Sequence[Outcome]) -> OutcomeStatus:
    """Return the status that tells most of a VM: failed, done, skipped, not needed."""
    found = {outcome.status for outcome in outcomes}
    order = (OutcomeStatus.FAILED, OutcomeStatus.DONE, OutcomeStatus.SKIPPED)
    return next((status for status in order if status in found), OutcomeStatus.NOT_NEEDED)


def seconds_of(outcomes: Sequence[Outcome]) -> float:
    """Return how long it took from the first of these to begin to the last to end; 0 where none tells."""
    began = [outcome.started_at for outcome in outcomes if outcome.started_at is not None]
    ended = [outcome.ended_at for outcome in outcomes if outcome.ended_at is not None]
    return (max(ended) - min(began)).total_seconds() if began and ended else 0.0
