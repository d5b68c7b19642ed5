"""How long a server is waited for, by a clock that goes on when somebody waits."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from vgpu_cfg.errors import AnswerLate, NoConnectionInTime, NotSent, Unreachable
from vgpu_cfg.vsphere.wire.outage import LONG_PAUSE_SECONDS, Outage


class Waiting:
    """An outage on a clock of its own, a server that is away for a while, and what was said."""

    def __init__(self, seconds: float = 600.0, *, is_known: bool = True) -> None:
        self.at = datetime(2026, 1, 5, 8, 0, tzinfo=UTC)
        self.told: list[str] = []
        self.asked = 0
        self.is_called_off = False
        self.outage = Outage(
            seconds, self.pause, lambda: self.at, self.told.append, lambda: self.is_called_off, is_known
        )

    def pause(self, seconds: float) -> None:
        self.at += timedelta(seconds=seconds)

    def away(self, seconds: float, error: Exception) -> Callable[[], str]:
        until = self.at + timedelta(seconds=seconds)

        def ask() -> str:
            self.asked += 1
            if self.at < until:
                raise error
            return "there"

        return ask


GONE = NotSent("no connection to vc01:443: refused", subject="vc01")


def always(_lost: Unreachable) -> bool:
    return True


def test_a_moment_is_no_news() -> None:
    waiting = Waiting()
    assert waiting.outage.ride(waiting.away(1.0, GONE), always) == "there"
    assert not waiting.told


def test_a_restart_is_waited_for_and_told() -> None:
    waiting = Waiting()
    assert waiting.outage.ride(waiting.away(300.0, GONE), always) == "there"
    first, last = waiting.told
    until = (datetime(2026, 1, 5, 8, 10, tzinfo=UTC)).astimezone()
    assert first == (
        f"vCenter is not responding (no connection to vc01:443: refused); waiting until {until:%H:%M}"
    )
    assert last == "vCenter is responding again after 5 min"
    assert waiting.asked < 300 / LONG_PAUSE_SECONDS + 10


def test_one_that_never_answered_is_not_waited_for() -> None:
    waiting = Waiting(is_known=False)
    with pytest.raises(NotSent) as caught:
        waiting.outage.ride(waiting.away(300.0, GONE), always)
    assert caught.value is GONE or caught.value.message == GONE.message
    assert waiting.asked == 3
    assert not waiting.told


def test_one_that_was_silent_once_is_asked_again_only_where_it_is_known() -> None:
    silent = NoConnectionInTime("no connection to vc01:443: no response within 60 s", subject="vc01")
    never = Waiting(is_known=False)
    with pytest.raises(NoConnectionInTime):
        never.outage.ride(never.away(300.0, silent), always)
    assert never.asked == 1
    waiting = Waiting()
    assert waiting.outage.ride(waiting.away(300.0, silent), always) == "there"


def test_the_wait_ends_and_is_not_begun_again_before_there_is_an_answer() -> None:
    waiting = Waiting()
    with pytest.raises(NotSent, match="waited for 10 min") as caught:
        waiting.outage.ride(waiting.away(10_000.0, GONE), always)
    assert "VGPU_CFG_OUTAGE_SECONDS" in caught.value.remedy
    asked = waiting.asked
    with pytest.raises(NotSent):
        waiting.outage.ride(waiting.away(10_000.0, GONE), always)
    assert waiting.asked == asked + 3
    assert waiting.outage.ride(lambda: "there", always) == "there"
    assert waiting.outage.ride(waiting.away(300.0, GONE), always) == "there"


def test_what_may_have_been_done_is_not_repeated() -> None:
    waiting = Waiting()
    lost = Unreachable("the connection broke")
    with pytest.raises(Unreachable) as caught:
        waiting.outage.ride(waiting.away(300.0, lost), lambda error: isinstance(error, NotSent))
    assert caught.value is lost
    assert waiting.asked == 1


@pytest.mark.parametrize(("is_known", "asked"), [(True, 2), (False, 1)])
def test_who_is_slow_is_asked_once_more_at_most(is_known: bool, asked: int) -> None:
    waiting = Waiting(is_known=is_known)
    with pytest.raises(AnswerLate):
        waiting.outage.ride(waiting.away(10_000.0, AnswerLate("late")), always)
    assert waiting.asked == asked


def test_a_wait_is_called_off() -> None:
    waiting = Waiting()

    def tell(line: str) -> None:
        waiting.told.append(line)
        waiting.is_called_off = True

    with waiting.outage.watched(tell, lambda: waiting.is_called_off), pytest.raises(NotSent):
        waiting.outage.ride(waiting.away(300.0, GONE), always)
    assert len(waiting.told) == 1
