"""Waiting for a vCenter that has answered before, and the messages meanwhile.

One that never answered is not: the address may be mistyped. A server that is only slow is asked once more.

Belief: restart-answers-503, restart-ends-sessions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from vgpu_cfg.errors import AnswerLate, NoConnectionInTime, Unreachable
from vgpu_cfg.vsphere.wire.flight import alone

Answer = TypeVar("Answer")

QUICK_PAUSES = (0.5, 1.0)
"""Between these attempts nothing is said: a connection may break once."""
LONG_PAUSE_SECONDS = 5.0
SLICE_SECONDS = 1.0
"""So often is looked whether the wait was called off."""
MOST_LATE = 2
"""The maximum number of late answers in a row: asking again does not help a slow server."""


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


@dataclass(slots=True)
class Outage:
    """Repeats what may be repeated. `is_known` says that the server has answered: only then is it waited for.

    `tell` gets a line for the user, and `is_called_off` returns whether the wait is no longer wanted. A wait
    that has ended in vain is not begun again before the server answers.
    """

    seconds: float = 0.0
    pause: Callable[[float], None] = _pause
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    tell: Callable[[str], None] = lambda _line: None
    is_called_off: Callable[[], bool] = lambda: False
    is_known: bool = False
    _in_vain: Unreachable | None = field(default=None, init=False)
    _rests: int = field(default=0, init=False)

    @contextmanager
    def watched(self, tell: Callable[[str], None], is_called_off: Callable[[], bool]) -> Iterator[None]:
        """Report waits inside through `tell`, and let `is_called_off` end them."""
        before = self.tell, self.is_called_off
        self.tell, self.is_called_off = tell, is_called_off
        try:
            yield
        finally:
            self.tell, self.is_called_off = before

    def ride(self, ask: Callable[[], Answer], may_repeat: Callable[[Unreachable], bool]) -> Answer:
        """Ask until there is an answer, as long as what went wrong lets it be asked again.

        Raises the last Unreachable, with how long was waited for.
        """
        begun, told, late, attempts = self.now(), False, 0, 0
        with ExitStack() as waiting:
            while True:
                rests = self._rests
                try:
                    answer = ask()
                except Unreachable as lost:
                    late = late + 1 if isinstance(lost, AnswerLate) else 0
                    is_silent = isinstance(lost, NoConnectionInTime) and not self.is_known
                    if is_silent or not may_repeat(lost) or late >= (MOST_LATE if self.is_known else 1):
                        raise
                    waiting.enter_context(alone())
                    if self._rests != rests:  # what was asked together has waited for it already
                        if self._in_vain is not None:
                            raise self._in_vain from lost
                        continue
                    attempts += 1
                    is_quick = attempts <= len(QUICK_PAUSES)
                    if not is_quick and not self._goes_on(begun):
                        self._in_vain = self._waited(lost, begun)
                        raise self._in_vain from lost
                    if not is_quick and not told:
                        told = True
                        self._announce(lost, begun)
                    self._rest(QUICK_PAUSES[attempts - 1] if is_quick else LONG_PAUSE_SECONDS)
                else:
                    self._in_vain = None
                    if told:
                        self.tell(f"vCenter is responding again after {_spelled(self.now() - begun)}")
                    return answer

    def _goes_on(self, begun: datetime) -> bool:
        is_in_time = self.now() < begun + timedelta(seconds=self.seconds)
        return self.is_known and is_in_time and self._in_vain is None and not self.is_called_off()

    def _announce(self, lost: Unreachable, begun: datetime) -> None:
        until = (begun + timedelta(seconds=self.seconds)).astimezone()
        self.tell(f"vCenter is not responding ({lost.message}); waiting until {until:%H:%M}")

    def _rest(self, seconds: float) -> None:
        self._rests += 1
        while seconds > 0 and not self.is_called_off():
            self.pause(min(seconds, SLICE_SECONDS))
            seconds -= SLICE_SECONDS

    def _waited(self, lost: Unreachable, begun: datetime) -> Unreachable:
        """Report the length of the wait, if that is news."""
        waited = self.now() - begun
        if not self.is_known or waited < timedelta(seconds=2 * LONG_PAUSE_SECONDS):
            return lost
        return type(lost)(
            f"{lost.message}; waited for {_spelled(waited)}",
            subject=lost.subject,
            remedy="when vCenter is available again, run the same command; to wait longer, raise "
            "`outage_seconds` (VGPU_CFG_OUTAGE_SECONDS)",
        )


def _spelled(waited: timedelta) -> str:
    seconds = round(waited.total_seconds())
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"
