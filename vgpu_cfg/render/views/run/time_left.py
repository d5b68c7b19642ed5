"""The remaining time of a run, estimated from its steps so far."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus

_MINUTE = 60


@dataclass(slots=True)
class TimeLeft:
    """Takes the events of a run, and says how long is left.

    A step that has not ended takes as long as those of its kind did. Steps that need each other come one
    after the other; of the rest as many go on at once as did so far, or do now. If a kind has not ended once,
    the time is unknown.
    """

    changes: Sequence[Change]
    _began: dict[str, datetime] = field(default_factory=dict)
    _took: dict[str, list[float]] = field(default_factory=dict)
    _left: dict[str, Change] = field(default_factory=dict)
    _first: datetime | None = None

    def __post_init__(self) -> None:
        self._left = {change.id: change for change in self.changes}

    def take(self, event: Event) -> None:
        """Learn from an event."""
        change = self._left.get(event.change_id)
        if change is None:
            return
        if event.kind is EventKind.STARTED:
            self._first = self._first or event.at
            self._began[change.id] = event.at
        elif event.kind is EventKind.ENDED:
            del self._left[change.id]
            began = self._began.pop(change.id, None)
            if began is not None and event.status is OutcomeStatus.DONE:
                self._took.setdefault(change.kind, []).append((event.at - began).total_seconds())

    def seconds(self, now: datetime) -> float | None:
        """Return the seconds left; None if unknown, since a remaining kind has not ended once."""
        if self._first is None or any(change.kind not in self._took for change in self._left.values()):
            return None
        left = {name: self._seconds_of(change, now) for name, change in self._left.items()}
        elapsed = (now - self._first).total_seconds()
        done = sum(sum(seconds) for seconds in self._took.values())
        at_once = max(1.0, len(self._began), done / elapsed if elapsed > 0 else 0.0)
        return max(sum(left.values()) / at_once, _longest(self._left, left))

    def _seconds_of(self, change: Change, now: datetime) -> float:
        """Return the remaining time of a step, by the mean of its kind."""
        took = self._took[change.kind]
        mean = sum(took) / len(took)
        began = self._began.get(change.id)
        return mean if began is None else max(0.0, mean - (now - began).total_seconds())


def _longest(changes: Mapping[str, Change], seconds: Mapping[str, float]) -> float:
    """Return the seconds of the longest chain of steps that need each other."""
    needs = {name: [need for need in change.needs if need in changes] for name, change in changes.items()}
    ends: dict[str, float] = {}
    for name in TopologicalSorter(needs).static_order():
        ends[name] = seconds[name] + max((ends[need] for need in needs[name]), default=0.0)
    return max(ends.values(), default=0.0)


def words_of(seconds: float) -> str:
    """Say how long is left, in whole minutes: "about 9 min left"."""
    if seconds < _MINUTE:
        return "less than a minute left"
    minutes = math.ceil(seconds / _MINUTE)
    hours = f"{minutes // _MINUTE} h " if minutes >= _MINUTE else ""
    return f"about {hours}{minutes % _MINUTE} min left".replace(" 0 min", "")
