"""The result of a plan: an outcome for each change, the events on the way, and the report of the run."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import model_serializer, model_validator

from vgpu_cfg.changes.change import Change, DestroyVm
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.frozen import Frozen, Moment


class OutcomeStatus(StrEnum):
    """The result of a change."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_NEEDED = "not_needed"

    @property
    def is_in_place(self) -> bool:
        """Whether the change is in place: it was made, or was there before."""
        return self in (OutcomeStatus.DONE, OutcomeStatus.NOT_NEEDED)


class SettingReading(Frozen):
    """A setting of a host as read back: wanted, configured, and in force.

    `runtime` equals `configured` if the source reports only one. `waits_for` is "reboot" or "cold boot" while
    the two differ. `differs` is whether the configured value is not the wanted one: the words alone do not
    show it, since a source may spell a value in several ways.
    """

    setting: str
    device: str = ""
    wanted: str
    configured: str | None = None
    runtime: str | None = None
    waits_for: str = ""
    differs: bool = False


class Outcome(Frozen):
    """The result of one change. `tasks` names its vCenter tasks, in order.

    `message` is vCenter's own text if a task failed, `cause` its known cause.
    """

    change_id: str
    subject: Subject
    status: OutcomeStatus
    tasks: tuple[str, ...] = ()
    started_at: Moment | None = None
    ended_at: Moment | None = None
    message: str = ""
    cause: str = ""
    remedy: str = ""
    vm_moid: str | None = None
    readings: tuple[SettingReading, ...] = ()


def in_place(outcomes: Iterable[Outcome]) -> frozenset[str]:
    """Return the ids of the changes that are in place."""
    return frozenset(one.change_id for one in outcomes if one.status.is_in_place)


class EventKind(StrEnum):
    """The kind of an event of a change."""

    STARTED = "started"
    TASK = "task"
    PROGRESS = "progress"
    NOTE = "note"
    ENDED = "ended"


class Event(Frozen):
    """One thing that happened during a run, for the display and the journal."""

    at: Moment
    kind: EventKind
    change_id: str
    subject: Subject
    progress: int | None = None
    task: str | None = None
    message: str = ""
    status: OutcomeStatus | None = None


class CanaryResult(Frozen):
    """The result of the hosts or VMs that went first: `problems` are deviations from the plan.

    `notes` are checks that were not possible.

    `goes_on` is whether `others` were begun: not if there are problems, or approval was refused.
    """

    names: tuple[str, ...]
    others: tuple[str, ...]
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    goes_on: bool = False


class LeftState(StrEnum):
    """How something was left that a run began and did not end, as far as others ask for it."""

    DOWN = "in maintenance mode"
    SSH_RUNS = "its SSH service is still running"


class LeftBehind(Frozen):
    """An object that a run began and did not finish. In a document: `name: state: why`."""

    name: str
    state: str = ""
    why: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.name, self.state, self.why) if part)

    @model_validator(mode="before")
    @classmethod
    def _read_sentence(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        return dict(zip(cls.model_fields, value.split(": ", 2), strict=False))

    @model_serializer
    def _write_sentence(self) -> str:
        return str(self)


class Rollback(Frozen):
    """The result of rolling back a failed run by `changes`; `why_not` is why nothing was rolled back.

    `kept` are the findings of changes that could not be undone (VG555) or were kept on purpose (VG556), and
    `left_behind` is as that of a `Report`.
    """

    digest: str = ""
    why_not: str = ""
    changes: tuple[Change, ...] = ()
    outcomes: tuple[Outcome, ...] = ()
    kept: tuple[Diagnostic, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    is_interrupted: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it was planned, and every change of it was made."""
        return not self.why_not and not self.is_interrupted and self.done >= {one.id for one in self.changes}

    @property
    def done(self) -> frozenset[str]:
        """The ids of the changes that are in place."""
        return in_place(self.outcomes)

    @property
    def gone(self) -> tuple[str, ...]:
        """The names of the VMs that the run made and that were deleted again."""
        return tuple(name for name, change_id in self._deletions if change_id in self.done)

    @property
    def not_gone(self) -> tuple[str, ...]:
        """The names of the VMs that the run made, that were to be deleted again, and are there."""
        return tuple(name for name, change_id in self._deletions if change_id not in self.done)

    @property
    def _deletions(self) -> list[tuple[str, str]]:
        return [(one.subject.name, one.id) for one in self.changes if isinstance(one, DestroyVm)]


class Report(Frozen):
    """The result of a plan. `left_behind` names incomplete objects.

    `run` is the id of the run, and `occasion` its occasion; an unrecorded run has neither. `put_off` names
    the hosts and VMs deferred because their window closes too soon. `canaries` are the results of those that
    went first. `rollback` is the result of the rollback, if requested after a failure.
    """

    plan: str
    digest: str
    run: str = ""
    occasion: Occasion = Occasion()
    outcomes: tuple[Outcome, ...] = ()
    left_behind: tuple[LeftBehind, ...] = ()
    is_interrupted: bool = False
    waiting_for: tuple[str, ...] = ()
    put_off: tuple[str, ...] = ()
    canaries: tuple[CanaryResult, ...] = ()
    rollback: Rollback | None = None

    @property
    def tasks(self) -> int:
        """How many vCenter tasks were started."""
        return sum(len(outcome.tasks) for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes that failed."""
        return tuple(found for found in self.outcomes if found.status is OutcomeStatus.FAILED)

    @property
    def has_failed(self) -> bool:
        """Whether a change failed, or a canary was not as planned."""
        return bool(self.failed) or any(canary.problems for canary in self.canaries)
