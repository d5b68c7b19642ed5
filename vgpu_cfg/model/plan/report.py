"""What became of a plan: an outcome for each change, the events on the way, and the report of the run."""

from __future__ import annotations

from enum import StrEnum

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.moments import Moment
from vgpu_cfg.model.occasion import Occasion
from vgpu_cfg.model.plan.change import Subject


class OutcomeStatus(StrEnum):
    """What became of a change."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_NEEDED = "not_needed"


class SettingReading(Frozen):
    """What a setting of a host showed when it was read back: wanted, configured, and in force.

    `runtime` equals `configured` where the source tells only one. `waits_for` is "reboot" or
    "cold boot" while the two differ. `differs` says that something else is configured than is wanted:
    the words alone do not tell, since a source may spell a value in several ways.
    """

    setting: str
    device: str = ""
    wanted: str
    configured: str | None = None
    runtime: str | None = None
    waits_for: str = ""
    differs: bool = False


class Outcome(Frozen):
    """What became of one change. `tasks` names the vCenter tasks it took, in order.

    `message` is vCenter's own text where a task failed, `cause` what that is known to come from.
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


class EventKind(StrEnum):
    """What just happened to a change."""

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


class Report(Frozen):
    """What became of a plan. `left_behind` names what was made and is not whole.

    `run` is the id of the run, and `occasion` what it was made for; a run that nobody records has neither.
    """

    plan: str
    digest: str
    run: str = ""
    occasion: Occasion = Occasion()
    outcomes: tuple[Outcome, ...] = ()
    left_behind: tuple[str, ...] = ()
    is_interrupted: bool = False
    waiting_for: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """How many vCenter tasks were started."""
        return sum(len(outcome.tasks) for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes that failed."""
        return tuple(found for found in self.outcomes if found.status is OutcomeStatus.FAILED)
