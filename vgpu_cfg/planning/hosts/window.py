"""When hosts may be disturbed: the hours of a window on the wall clock of its zone, as moments in time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from heapq import heappop, heappush
from zoneinfo import ZoneInfo

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, EnterMaintenance
from vgpu_cfg.model.plan_file import split_window
from vgpu_cfg.model.wording import counted

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Window:
    """Hours that come again on some days of the week, by the wall clock of a zone.

    `days` are those on which it opens (Monday is 0). `start` and `end` are minutes from
    midnight, `end` up to 1440; an end that is not after the start is one of the next day.
    """

    days: frozenset[int]
    start: int
    end: int
    zone: ZoneInfo

    def is_open(self, now: datetime) -> bool:
        """Whether hosts may be disturbed at a moment. The end itself is outside.

        Raises ValueError for a time without a zone. An hour that summer time skips or repeats
        is as long as it really is; of two moments with one reading the earlier counts.
        """
        if now.tzinfo is None:
            raise ValueError("a time requires a time zone")
        today = now.astimezone(self.zone).date()
        return any(
            self._moment(day, self.start) <= now < self._moment(self._last_day(day), self.end)
            for day in (today - _DAY, today)
            if day.weekday() in self.days
        )

    def seconds_left(self, now: datetime) -> float | None:
        """Return how long it stays open, None if it is closed; one that ends as the next opens goes on.

        A week is the most that is returned.
        """
        end = self.closes_at(now)
        return None if end == now else (end - now).total_seconds()

    def closes_at(self, now: datetime) -> datetime:
        """Return when it closes, as of `seconds_left`, or `now` if it is closed."""
        end = now
        while (closes := self._end_of(end)) is not None and end - now < _WEEK:
            end = closes
        return end

    def opens_at(self, now: datetime) -> datetime:
        """Return when it opens next, or `now` if it is open."""
        if self.is_open(now):
            return now
        today = now.astimezone(self.zone).date()
        days = (today + number * _DAY for number in range(9))
        return next(
            opens
            for day in days
            if day.weekday() in self.days and (opens := self._moment(day, self.start)) > now
        )

    def when(self, now: datetime) -> str:
        """Say when it opens next: "opens on Sat 2026-12-05 at 22:00 Europe/Berlin"."""
        return f"opens on {self.opens_at(now).astimezone(self.zone):%a %Y-%m-%d at %H:%M} {self.zone.key}"

    @property
    def longest_seconds(self) -> float:
        """How long it is open at most, hours that summer time adds or takes apart."""
        minutes = self.end - self.start if self.end > self.start else self.end + 24 * 60 - self.start
        is_without_end = minutes == 24 * 60
        return float("inf") if is_without_end else minutes * 60.0

    def _end_of(self, now: datetime) -> datetime | None:
        today = now.astimezone(self.zone).date()
        ends = (
            self._moment(self._last_day(day), self.end)
            for day in (today - _DAY, today)
            if day.weekday() in self.days and self._moment(day, self.start) <= now
        )
        return max((end for end in ends if now < end), default=None)

    def _last_day(self, day: date) -> date:
        return day if self.end > self.start else day + _DAY

    def _moment(self, day: date, minutes: int) -> datetime:
        days, minutes = divmod(minutes, 24 * 60)
        clock = time(*divmod(minutes, 60))
        local = datetime.combine(day + days * _DAY, clock, tzinfo=self.zone)
        return local.astimezone(UTC)  # two times of one zone would be compared by the wall clock


@dataclass(frozen=True, slots=True)
class Forecast:
    """How many openings of a window the work of its hosts needs, and when the last host is back.

    It is an estimate: `apply` runs in each opening, from its beginning.
    """

    window: str
    openings: int
    ends: datetime

    @property
    def words(self) -> str:
        """How many windows the work needs, and when it is done."""
        return f"about {counted(self.openings, 'window')}, done by {self.ends:%a %Y-%m-%d %H:%M}"


def forecast(changes: Iterable[Change], now: datetime) -> tuple[Forecast, ...]:
    """Return a forecast for each window of the hosts that are to be taken down.

    Waves run in parallel; of each, the stated number of hosts is down at once. A host begins only if
    its expected time is left in the window. Windows without an end, or too short for a host, have none.
    """
    waves: dict[str, dict[str, list[EnterMaintenance]]] = {}
    for change in of_kind(changes, EnterMaintenance):
        if change.window and change.takes_seconds and not change.is_held:
            waves.setdefault(change.window, {}).setdefault(change.wave, []).append(change)
    found = []
    for text, of_window in waves.items():
        window = parse_window(text)
        if window.longest_seconds == float("inf"):
            continue
        ends = now
        used: set[datetime] = set()
        for wave in of_window.values():
            free = [now] * min(change.max_down for change in wave)
            for seconds in (change.takes_seconds for change in wave):
                if seconds > window.longest_seconds:
                    continue
                begins = window.opens_at(heappop(free))
                closes = window.closes_at(begins)
                if closes - begins < timedelta(seconds=seconds):
                    begins = window.opens_at(closes)
                    closes = window.closes_at(begins)
                used.add(closes)
                heappush(free, begins + timedelta(seconds=seconds))
                ends = max(ends, *free)
        if used:
            found.append(Forecast(text, len(used), ends.astimezone(window.zone)))
    return tuple(found)


def windows_of(changes: Iterable[Change], now: datetime) -> tuple[str, ...]:
    """Say of each window to which changes are bound whether it is open, and how many of it they need."""
    changes = [*changes]
    held = {one.id for one in of_kind(changes, EnterMaintenance) if one.is_held}
    waiting = [one for one in changes if one.id not in held]
    needs = {one.window: one for one in forecast(waiting, now)}
    found = []
    for text in dict.fromkeys(text for change in waiting for text in change.timing.windows):
        window = parse_window(text)
        state = f"closed; it {window.when(now)}"
        if window.is_open(now):
            state = f"open until {window.closes_at(now).astimezone(window.zone):%a %Y-%m-%d %H:%M}"
        found.append(f"{text}: {state}" + (f"; {needs[text].words}" if text in needs else ""))
    return tuple(found)


def parse_window(text: str) -> Window:
    """Read `Sat 22:00-04:00 Europe/Berlin`; days are also `Sat,Sun` or `daily`.

    Raises ValueError, which names the fault, with a hint on its second line.
    """
    parts = split_window(text)
    return Window(parts.days, parts.start, parts.end, ZoneInfo(parts.zone))
