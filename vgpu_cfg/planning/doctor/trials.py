"""The experiments of a trial as data: their calls, privileges and beliefs, and their cost for a site."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from vgpu_cfg.changes.need import Need
from vgpu_cfg.changes.privileges import TRIAL_ALARMS, TRIAL_EVENTS
from vgpu_cfg.planning.doctor.throw_away import TrialMark


class Step(StrEnum):
    """A step of a trial, by the throw-away objects that it makes."""

    OBJECTS = "objects"
    """Alarms and events."""

    @property
    def trial(self) -> str:
        """The word for it in the rows of beliefs."""
        return self.value.removesuffix("s")


@dataclass(frozen=True, slots=True)
class Experiment:
    """Some calls, and the beliefs that they try.

    `calls` has the methods that change something, each with the most times that it is called, removal
    included.
    """

    step: Step
    does: str
    calls: Mapping[str, int]
    needs: tuple[Need, ...]
    beliefs: tuple[str, ...]


ALARM = Experiment(
    Step.OBJECTS,
    "Creates an alarm on the root folder twice, changes its text, and removes it.",
    {"CreateAlarm": 2, "ReconfigureAlarm": 1, "RemoveAlarm": 2},
    (TRIAL_ALARMS,),
    ("disabled-alarm-expression", "alarm-names-are-unique", "alarms-are-visible-at-once",
     "alarm-description-400", "alarm-time-is-its-creation", "alarm-time-moves"),
)  # fmt: skip
ALARMS_AT_ONCE = Experiment(
    Step.OBJECTS,
    "Creates two alarms of one name on the root folder at the same time, and removes them.",
    {"CreateAlarm": 2, "RemoveAlarm": 2},
    (TRIAL_ALARMS,),
    ("alarm-names-are-unique-at-once",),
)
EVENTS = Experiment(
    Step.OBJECTS,
    "Writes two events to the root folder.",
    {"LogUserEvent": 2},
    (TRIAL_EVENTS,),
    ("user-events", "event-type-spelling", "event-filter-takes-bare-names", "event-filter-by-type-id",
     "event-collector-reads-backwards"),
)  # fmt: skip
EXPERIMENTS = (ALARM, ALARMS_AT_ONCE, EVENTS)


@dataclass(frozen=True, slots=True)
class Outline:
    """A trial before it begins: its calls, its duration, and its cost for a site."""

    server: str
    mark: TrialMark
    experiments: Sequence[Experiment]
    minutes: int
    datastore_mib: int = 0

    @property
    def calls(self) -> Counter[str]:
        """Return the most calls by method, those that only read left out."""
        total: Counter[str] = Counter()
        for one in self.experiments:
            total.update(one.calls)
        return total

    @property
    def tasks(self) -> int:
        """Return the most tasks that vCenter then lists."""
        return sum(count for method, count in self.calls.items() if method.endswith("_Task"))

    @property
    def steps(self) -> tuple[Step, ...]:
        """Return its steps, in their order."""
        return tuple(dict.fromkeys(one.step for one in self.experiments))


def experiments_of(steps: Iterable[Step]) -> tuple[Experiment, ...]:
    """Return the experiments of these steps, in their order."""
    wanted = frozenset(steps)
    return tuple(one for one in EXPERIMENTS if one.step in wanted)


def needs_of(experiments: Iterable[Experiment]) -> tuple[Need, ...]:
    """Return the privileges of experiments, each need once."""
    return tuple(dict.fromkeys(need for one in experiments for need in one.needs))
