"""A plan, or its result, along one line: the work, downtime and moves of each host and VM, and the time left.

A plan has no known times, so its line counts turns: concurrent changes have the same turn. Of a run it counts
seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from graphlib import TopologicalSorter

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, Outcome, OutcomeStatus, Report
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import duration
from vgpu_cfg.render.views.plan import BLOCKED

_LEGEND = {
    "span": "out of service",
    "down": "taken out of or returned to service",
    "restart": "restart",
    "move": "moved",
    "delete": "deleted",
    "hand": "manual",
    "make": "created or started",
    "set": "set",
    "failed": "failed",
}
_DISTURBS = ("down", "restart", "move", "delete", "hand")
_MINUTE = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """A piece of a row, from `start` to `end` in the line's unit. `kind` says how it is drawn.

    "span" is the time in which a host or VM is not there for others; "failed" a step that failed.
    """

    start: float
    end: float
    kind: str
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    """The work on hosts or VMs that go alike. `about` is the estimate or the record of its time."""

    subject: str
    names: str
    bars: tuple[Bar, ...]
    about: str = ""

    @property
    def is_disturbed(self) -> bool:
        """Whether something of it stops, moves or goes."""
        return any(bar.kind in _DISTURBS for bar in self.bars)

    @property
    def text(self) -> str:
        """The labels of the bars, in their order, each word once."""
        return ", ".join(dict.fromkeys(bar.words for bar in self.bars if bar.kind != "span"))


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows in the order in which their work begins; `length` is where the line ends."""

    length: float
    rows: tuple[Row, ...]

    def percent(self, value: float) -> float:
        """Return a part of the line in percent."""
        return round(100 * value / self.length, 3) if self.length else 0

    @property
    def legend(self) -> list[tuple[str, str]]:
        """The kinds of bars that are drawn, with what each means."""
        drawn = {bar.kind for row in self.rows for bar in row.bars}
        return [(kind, words) for kind, words in _LEGEND.items() if kind in drawn]


def plan_timeline(plan: Plan) -> Timeline:
    """Lay a plan out by turns, as its needs and limits of hosts that are down allow."""
    turns = turns_of(plan.changes)
    times = {change.id: (float(turn), turn + 1.0) for change, turn in zip(plan.changes, turns, strict=True)}
    about = {name: _estimates(own, plan.blocked) for name, own in _by_subject(plan.changes).items()}
    return _timeline(plan.changes, times, about, {})


def run_timeline(changes: Sequence[Change], report: Report) -> Timeline:
    """Lay out the changes that have begun, by the seconds since the first began."""
    outcomes = {one.change_id: one for one in report.outcomes if one.started_at is not None}
    first = min((one.started_at for one in outcomes.values() if one.started_at), default=None)
    if first is None:
        return Timeline(0, ())
    times = {name: _seconds(one, first) for name, one in outcomes.items()}
    done = [change for change in changes if change.id in times]
    about = {
        key: f"{moment_text(first, min(times[one.id][0] for one in own))}, "
        f"took {duration(max(times[one.id][1] for one in own) - min(times[one.id][0] for one in own))}"
        for key, own in _by_subject(done).items()
    }
    return _timeline(done, times, about, outcomes)


def moment_text(first: datetime, seconds: float) -> str:
    """Say when something began, by how long after the first."""
    return f"+{duration(seconds)}" if seconds else f"{first:%H:%M:%S} UTC"


def _seconds(outcome: Outcome, first: datetime) -> tuple[float, float]:
    began = outcome.started_at or first
    ended = outcome.ended_at or began
    return (began - first).total_seconds(), (ended - first).total_seconds()


def _timeline(
    changes: Sequence[Change],
    times: Mapping[str, tuple[float, float]],
    about: Mapping[tuple[str, str], str],
    outcomes: Mapping[str, Outcome],
) -> Timeline:
    length = max((end for _, end in times.values()), default=0)
    alike: dict[tuple[str, tuple[Bar, ...], str], list[str]] = {}
    for (kind, name), own in _by_subject(changes).items():
        bars = tuple(_bars(own, times, outcomes, length))
        alike.setdefault((kind, bars, about[kind, name]), []).append(name)
    rows = [Row(kind, fold_names(names), bars, words) for (kind, bars, words), names in alike.items()]
    rows.sort(key=lambda row: (min(bar.start for bar in row.bars), row.subject != "host"))
    return Timeline(length, tuple(rows))


def _by_subject(changes: Iterable[Change]) -> dict[tuple[str, str], list[Change]]:
    found: dict[tuple[str, str], list[Change]] = {}
    for change in changes:
        found.setdefault((change.subject.kind, change.subject.name), []).append(change)
    return found


def _bars(
    changes: Sequence[Change],
    times: Mapping[str, tuple[float, float]],
    outcomes: Mapping[str, Outcome],
    length: float,
) -> Iterator[Bar]:
    """Yield the time in which it is away first, below, then its steps."""
    yield from _spans(changes, times, outcomes, length)
    for change in changes:
        start, end = times[change.id]
        kind, words = change.face[:2]
        outcome = outcomes.get(change.id)
        if outcome is not None and outcome.status is OutcomeStatus.FAILED:
            kind, words = "failed", f"{words}: FAILED"
        elif outcome is not None and outcome.status is OutcomeStatus.NOT_NEEDED:
            words = f"{words}: already done"
        if outcome is not None and len(outcome.tasks) > 1:
            words = f"{words}, {len(outcome.tasks)} tasks"
        yield Bar(start, end, kind, words)


def _spans(
    changes: Sequence[Change],
    times: Mapping[str, tuple[float, float]],
    outcomes: Mapping[str, Outcome],
    length: float,
) -> Iterator[Bar]:
    """Yield from when to when it is away: to the end of the line where nothing brings it back."""
    gone: float | None = None
    for change in changes:
        outcome = outcomes.get(change.id)
        if outcome is not None and outcome.status is OutcomeStatus.FAILED:
            continue
        if change.face.takes_away:
            gone = times[change.id][0]
        elif change.face.brings_back and gone is not None:
            yield Bar(gone, times[change.id][1], "span", "away")
            gone = None
    if gone is not None:
        yield Bar(gone, length, "span", "out of service, not returned")


def _estimates(changes: Iterable[Change], blocked: Sequence[str]) -> str:
    """Show the plan's time estimate, and when it may begin."""
    words: dict[str, None] = {}
    for change in changes:
        seconds, windows, stun_ms = change.timing
        if seconds:
            words[f"estimated at {duration(seconds)}"] = None
        if stun_ms is not None:
            words[f"paused for about {duration(stun_ms / 1000)}"] = None
        words |= {f"only in the window {window}": None for window in windows}
        if change.id in blocked:
            words[BLOCKED] = None
    return ", ".join(words)


def turns_of(changes: Sequence[Change]) -> list[int]:
    """Return the turn of each change: after its needs, and within the wave's limit of hosts down."""
    places = {change.id: place for place, change in enumerate(changes)}
    waits, followers = [0] * len(changes), [list[int]() for _ in changes]
    for place, change in enumerate(changes):
        for need in {*change.needs, *change.behind} & places.keys():
            waits[place] += 1
            followers[places[need]].append(place)
    turns = [0] * len(changes)
    ready = [place for place, count in enumerate(waits) if not count]
    queues: dict[str, deque[int]] = {}
    down: dict[str, int] = {}
    turn = 0
    while ready or any(queues.values()):
        begun = []
        for place in ready:
            change = changes[place]
            if change.down is not None and change.down.more > 0:
                queues.setdefault(change.down.wave, deque()).append(place)
            else:
                begun.append(place)
        for wave, queue in queues.items():
            while queue and _may_go_down(changes[queue[0]], down.get(wave, 0)):
                down[wave] = down.get(wave, 0) + 1
                begun.append(queue.popleft())
        ready = []
        for place in begun:
            turns[place] = turn
            back = changes[place].down
            if back is not None and back.more < 0:
                down[back.wave] = down.get(back.wave, 0) - 1
            for follower in followers[place]:
                waits[follower] -= 1
                if not waits[follower]:
                    ready.append(follower)
        if not begun:
            break
        turn += 1
    return turns


def _may_go_down(change: Change, down: int) -> bool:
    return change.down is not None and (down < change.down.most or down <= 0)


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
