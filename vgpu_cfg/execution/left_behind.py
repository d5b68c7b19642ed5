"""What a run leaves that is not whole: half-made VMs, guests, hosts that are down, tasks still running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.report import Outcome, OutcomeStatus
from vgpu_cfg.execution.hosts.session import HostSession
from vgpu_cfg.execution.run.session import RunSession

_NOT_DONE = (OutcomeStatus.FAILED, OutcomeStatus.SKIPPED)


def list_left_behind(
    session: RunSession,
    hosts: HostSession | None,
    outcomes: Mapping[str, Outcome],
    in_flight: Iterable[tuple[str, str]],
) -> tuple[str, ...]:
    """Name, one line each, what this run began and did not end; `in_flight` holds (task, change id)."""
    return (
        *(f"{name}: {state}" for name, state in session.half_made.items()),
        *(f"{name}: its guest is set up in part: {at}" for name, at in session.half_staged.items()),
        *_unfinished(session, outcomes),
        *(hosts.list_left_behind() if hosts is not None else ()),
        *(f"{task}: {change_id!r} still ran in vCenter" for task, change_id in in_flight),
    )


def _unfinished(session: RunSession, outcomes: Mapping[str, Outcome]) -> Iterator[str]:
    undone: dict[str, list[str]] = {}
    for change in session.plan.changes:
        found = outcomes.get(change.id)
        is_listed = isinstance(change, StageGuest) and change.vm.name in session.half_staged
        if found is not None and found.status in _NOT_DONE and not is_listed:
            undone.setdefault(change.subject.name, []).append(change.id)
    for name in session.made:
        if name not in session.half_made and name in undone:
            yield f"{name}: made, but not done: {', '.join(undone[name])}"
