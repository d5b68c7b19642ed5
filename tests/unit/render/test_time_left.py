"""How long a run has left, by what its own steps took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.unit.execution.makers import create, power_on
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.render.views.run.timeline import TimeLeft, words_of

BEGIN = datetime(2026, 5, 4, 9, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def started(change: Change, seconds: float) -> Event:
    return Event(at=at(seconds), kind=EventKind.STARTED, change_id=change.id, subject=change.subject)


def ended(change: Change, seconds: float, status: OutcomeStatus = OutcomeStatus.DONE) -> Event:
    found = started(change, seconds)
    return found.model_copy(update={"kind": EventKind.ENDED, "status": status})


def after(changes: list[Change], *events: Event) -> TimeLeft:
    left = TimeLeft(changes)
    for event in events:
        left.take(event)
    return left


def test_what_has_not_begun_takes_as_long_as_its_kind_did() -> None:
    a, b = create("a"), create("b")
    assert after([a, b], started(a, 0), ended(a, 60)).seconds(at(60)) == 60


def test_what_goes_on_takes_what_is_left_of_it() -> None:
    a, b = create("a"), create("b")
    assert after([a, b], started(a, 0), ended(a, 60), started(b, 60)).seconds(at(80)) == 40
    assert after([a, b], started(a, 0), ended(a, 60), started(b, 60)).seconds(at(500)) == 0


def test_what_goes_on_side_by_side_goes_on_so() -> None:
    made = [create(name) for name in "abcd"]
    events = [started(made[0], 0), started(made[1], 0), ended(made[0], 60), ended(made[1], 60)]
    assert after(list(made), *events).seconds(at(60)) == 60


def test_steps_that_need_each_other_come_one_after_the_other() -> None:
    a, b = create("a"), create("b")
    on_a, on_b = power_on("a"), power_on("b")
    events = [started(a, 0), ended(a, 60), started(on_a, 60), ended(on_a, 70), started(b, 0)]
    assert after([a, b, on_a, on_b], *events).seconds(at(70)) == pytest.approx(10)
    assert after([on_b, on_a, a, b], *events[:4]).seconds(at(70)) == 70


def test_a_kind_that_has_not_ended_once_is_not_guessed() -> None:
    a, on = create("a"), power_on("a")
    assert after([a, on]).seconds(at(0)) is None
    assert after([a, on], started(a, 0), ended(a, 60)).seconds(at(60)) is None


@pytest.mark.parametrize("status", [OutcomeStatus.FAILED, OutcomeStatus.SKIPPED, OutcomeStatus.NOT_NEEDED])
def test_only_what_was_done_tells_how_long_it_takes(status: OutcomeStatus) -> None:
    a, b = create("a"), create("b")
    assert after([a, b], started(a, 0), ended(a, 60, status)).seconds(at(60)) is None


def test_at_the_end_nothing_is_left() -> None:
    a = create("a")
    assert after([a], started(a, 0), ended(a, 60)).seconds(at(60)) == 0


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute left"),
        (59, "less than a minute left"),
        (61, "about 2 min left"),
        (3600, "about 1 h left"),
        (3700, "about 1 h 2 min left"),
        (36_000, "about 10 h left"),
        (600, "about 10 min left"),
    ],
)
def test_it_is_told_in_whole_minutes(seconds: float, words: str) -> None:
    assert words_of(seconds) == words
