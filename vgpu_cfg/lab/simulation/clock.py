"""The lab's time: a virtual clock that jumps from event to event, and a real one that people can watch."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import Protocol

VIRTUAL_START = datetime(2026, 1, 5, 8, 0, tzinfo=UTC).timestamp()
VMS_RUN_SINCE = VIRTUAL_START - 30 * 86_400
"""When the VMs of an estate were powered on: after their hosts, which have run for 40 days."""


class LabClock(Protocol):
    """Time in seconds since 1970, and waiting for it."""

    def now(self) -> float:
        """Return the time."""
        ...

    def scaled(self, seconds: float) -> float:
        """Return how long something of a nominal duration lasts on this clock."""
        ...

    def wait(self, until: float, changed: threading.Condition) -> None:
        """Wait until a time, or until `changed` (held by the caller, let go meanwhile) is notified."""
        ...

    def catch_up(self, moment: float) -> None:
        """Never show a time before this one again: a saved state was written then."""
        ...


class VirtualClock:
    """Keeps its time until a wait, and then jumps to the end of the wait."""

    def __init__(self, start: float = VIRTUAL_START) -> None:
        self._now = start

    def now(self) -> float:
        """Return the virtual time."""
        return self._now

    def scaled(self, seconds: float) -> float:
        """Return the nominal duration: it costs nothing here."""
        return seconds

    def wait(self, until: float, changed: threading.Condition) -> None:
        """Jump."""
        self._now = max(self._now, until)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._now += seconds

    def catch_up(self, moment: float) -> None:
        """Jump to a saved state's time."""
        self._now = max(self._now, moment)


class RealClock:
    """The wall clock. Tasks last their nominal time divided by `speed`."""

    def __init__(self, speed: float = 1.0) -> None:
        if speed <= 0:
            raise ValueError(f"a clock's speed must be greater than 0, not {speed}")
        self.speed = speed
        self._behind = 0.0

    def now(self) -> float:
        """Return the wall time."""
        return time.time() + self._behind

    def scaled(self, seconds: float) -> float:
        """Return the nominal duration divided by the speed."""
        return seconds / self.speed

    def wait(self, until: float, changed: threading.Condition) -> None:
        """Wait for real."""
        remaining = until - self.now()
        if remaining > 0:
            changed.wait(remaining)

    def catch_up(self, moment: float) -> None:
        """Run ahead of the wall where a state was saved on a clock that was ahead."""
        self._behind = max(self._behind, moment - time.time())


def as_datetime(seconds: float) -> datetime:
    """Return a moment of the lab as the wire wants it."""
    return datetime.fromtimestamp(seconds, UTC)
