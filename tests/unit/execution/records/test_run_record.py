"""When vCenter's events are told of a run: at its end, and of its beginning with a heartbeat."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.fake_locks import FakeLocks, FakeRunLog, FixedClock
from tests.fakes.fake_vcenter import START
from tests.unit.execution.makers import create, plan_of
from vgpu_cfg.changes.report import Report
from vgpu_cfg.errors import NotPermitted, Unreachable
from vgpu_cfg.execution import RunLocks, RunPlaces, RunRecord, recorded
from vgpu_cfg.execution.records.copies import no_copies
from vgpu_cfg.model.locks import LockHolder, LockName
from vgpu_cfg.model.runs import RunEntry, parse_entry

PLAN = plan_of(create("a"))
REPORT = Report(plan=PLAN.name, digest=PLAN.digest)


class Run:
    """A run with its lock, on a clock that stands still; `said` is what it told of its records."""

    def __init__(self, folder: Path) -> None:
        self.log, self.clock, self.said = FakeRunLog(), FixedClock(), list[str]()
        holder = LockHolder(run="5eed5eed5eed", since=START)
        self.locks = RunLocks(FakeLocks(), self.log, self.clock, folder / "locks", holder)
        self._places = RunPlaces(folder, no_copies, self.log)

    @contextmanager
    def going_on(self) -> Iterator[RunRecord]:
        entry = RunEntry(run="5eed5eed5eed", at=START, command="apply")
        with self.locks:
            self.locks.take(LockName(kind="plan", key=PLAN.name))
            with recorded(PLAN, entry, self._places, self.locks, self.clock, self.said.append) as record:
                yield record
            self.passes(61)  # as while it reads back

    def passes(self, seconds: float) -> None:
        self.clock.pause(seconds)
        self.locks.beat()

    @property
    def told(self) -> list[tuple[str, float]]:
        """What the events tell, with the seconds since the beginning."""
        entries = [entry for text in self.log.texts if (entry := parse_entry(text)) is not None]
        return [
            (
                entry.result or "began",
                entry.late_seconds if entry.began_at is None else (entry.at - entry.began_at).total_seconds(),
            )
            for entry in entries
        ]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


def test_a_short_run_leaves_its_end_alone(run: Run) -> None:
    with run.going_on() as record:
        run.passes(59)
        record.end(REPORT)
    assert run.told == [("done", 59)]


def test_a_longer_one_leaves_its_beginning_with_the_first_heartbeat(run: Run) -> None:
    with run.going_on() as record:
        run.passes(59)
        run.passes(3)
        run.passes(61)
        record.end(REPORT)
    assert run.told == [("began", 62), ("done", 123)]


def test_one_that_breaks_off_leaves_its_beginning(run: Run) -> None:
    with contextlib.suppress(ZeroDivisionError), run.going_on():
        run.passes(5)
        raise ZeroDivisionError
    assert run.told == [("began", 5)]


def test_what_may_not_be_written_is_told_once(run: Run) -> None:
    run.log.failure = NotPermitted("it lacks Global.LogEvent")
    with run.going_on() as record:
        run.passes(61)
        record.end(REPORT)
    assert run.said == ["vCenter has no event showing that this run began: it lacks Global.LogEvent"]


def test_the_end_is_tried_where_the_beginning_was_not_to_be_written(run: Run) -> None:
    with run.going_on() as record:
        run.log.failure = Unreachable("vc01 does not answer")
        run.passes(61)
        run.log.failure = None
        record.end(REPORT)
    assert run.said == ["vCenter has no event showing that this run began: vc01 does not answer"]
    assert run.told == [("done", 61)]
