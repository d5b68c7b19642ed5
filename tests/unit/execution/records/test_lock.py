from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.fakes.fake_locks import FakeLocks, FakeRunLog, FixedClock
from tests.fakes.fake_vcenter import START
from vgpu_cfg.errors import AnswerLost, Locked, LockLost, NotPermitted, VCenterError
from vgpu_cfg.execution import RunLocks
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.locks import LockHolder, LockName
from vgpu_cfg.model.runs import parse_entry

DEMO = LockName(kind="plan", key="demo")
HOST = LockName(kind="host", key="host-7", label="esx-07")
OTHER_HOST = LockName(kind="host", key="host-8", label="esx-08")
DEMO_BY_ID = LockName(kind="id", key="3f0c9a7e-52d1-4b86-9e24-000000000001", label="demo")
POOL = LockName(kind="cluster", key="domain-c1", label="gpu")


def run_of(keeper: FakeLocks, folder: Path, run: str = "one", **fields: object) -> RunLocks:
    holder = LockHolder(run=run, command="apply", plan="demo", machine="desk-01", since=START)
    holder = holder.model_copy(update=fields)
    return RunLocks(keeper, log, FixedClock(), folder, holder, said.append)


said: list[str] = []
log = FakeRunLog()


@pytest.fixture(autouse=True)
def _nothing_said() -> None:
    said.clear()
    log.texts.clear()
    log.failure = None


@contextmanager
def killed(keeper: FakeLocks, folder: Path, *names: LockName, **fields: object) -> Iterator[None]:
    """A run whose process has ended without giving anything back."""
    with run_of(keeper, folder, "dead", **fields) as locks:
        locks.take(*names)
        kept = dict(keeper.held)
    keeper.held.update(kept)
    (folder / "dead.lock").touch()
    yield


def test_a_second_run_is_told_who_works_since_when_and_under_which_run(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with run_of(keeper, tmp_path, user="anna", machine="ci-7", pid=812) as first:
        first.take(DEMO)
        keeper.pass_time(61)
        with pytest.raises(Locked) as raised, run_of(keeper, tmp_path, "two") as second:
            second.take(DEMO)
    assert raised.value.message == (
        "another run has locked plan demo: anna on ci-7, `apply` of demo, process 812, since 2026-03-02 "
        "21:04:11 UTC, run one; last active at 21:04:11 UTC"
    )
    assert raised.value.remedy == (
        "wait for the run to end, or stop it on its machine; if it was interrupted, `vgpu-cfg unlock one "
        "--server vc01.lab --force`"
    )
    assert raised.value.exit_code == 6
    assert keeper.held == {}


def test_a_silent_run_is_named_so_and_keeps_its_lock(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with run_of(keeper, tmp_path, machine="ci-7") as first:
        first.take(DEMO)
        keeper.pass_time(86_400)
        with pytest.raises(Locked) as raised, run_of(keeper, tmp_path, "two") as second:
            second.take(DEMO)
        assert "inactive since 21:04:11 UTC on 2026-03-02" in raised.value.message
        assert raised.value.remedy.endswith("`vgpu-cfg unlock one --server vc01.lab`")
        assert [lock.name for lock in keeper.held.values()] == [DEMO]


def test_a_run_that_has_failed_gives_all_back_the_heartbeat_last(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with contextlib.suppress(ZeroDivisionError), run_of(keeper, tmp_path) as locks:
        locks.take(DEMO)
        locks.take(HOST, POOL)
        raise ZeroDivisionError
    assert keeper.held == {}
    assert keeper.calls[-3:] == ["remove alarm-3", "remove alarm-2", "remove alarm-1"]
    assert list(tmp_path.iterdir()) == []


def test_hosts_and_clusters_are_taken_in_one_order_by_all_runs(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with run_of(keeper, tmp_path) as locks:
        locks.take(DEMO)
        locks.take(OTHER_HOST, POOL, HOST)
        locks.take(HOST)
        assert [lock.name for lock in keeper.held.values()] == [DEMO, POOL, HOST, OTHER_HOST]
        locks.check(HOST, POOL)


def test_a_host_that_is_not_locked_is_not_written_to(tmp_path: Path) -> None:
    with run_of(FakeLocks(), tmp_path) as locks:
        locks.take(DEMO, HOST)
        with pytest.raises(LockLost, match="host esx-08 is not locked by this run"):
            locks.check(OTHER_HOST)


def test_a_process_that_has_ended_on_this_machine_is_known_to_have(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with killed(keeper, tmp_path, DEMO, HOST), run_of(keeper, tmp_path, "two") as locks:
        locks.take(DEMO)
        assert [lock.holder and lock.holder.run for lock in keeper.held.values()] == ["two"]
    assert "run dead" in said[0]
    assert "ended without releasing its locks; removing them" in said[0]


@pytest.mark.parametrize(("times", "waits"), [(3, 3), (1000, 300)])
def test_what_a_killed_run_had_begun_is_waited_for_and_not_for_ever(
    times: int, waits: int, tmp_path: Path
) -> None:
    keeper = FakeLocks(running=[("CloneVM of ubuntu",)] * times)
    with killed(keeper, tmp_path, DEMO), run_of(keeper, tmp_path, "two") as locks:
        locks.take(DEMO)
    assert "run dead has ended, but vCenter tasks are still running: CloneVM of ubuntu" in said[0]
    assert sum(call.startswith("tasks of") for call in keeper.calls) == waits + 1
    assert ("continuing while these tasks run: CloneVM of ubuntu" in said) == (times == 1000)


def test_of_a_process_on_another_machine_nobody_knows(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with (
        killed(keeper, tmp_path, DEMO, machine="elsewhere"),
        pytest.raises(Locked),
        run_of(keeper, tmp_path, "two") as locks,
    ):
        locks.take(DEMO)
    assert len(keeper.held) == 1


def test_with_another_state_folder_nobody_knows_either(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with (
        killed(keeper, tmp_path / "a", DEMO),
        pytest.raises(Locked),
        run_of(keeper, tmp_path / "b", "two") as locks,
    ):
        locks.take(DEMO)


def test_the_heartbeat_goes_once_a_minute_at_one_lock_of_the_run(tmp_path: Path) -> None:
    keeper, clock = FakeLocks(), FixedClock()
    with RunLocks(keeper, FakeRunLog(), clock, tmp_path, LockHolder(run="one", since=START)) as locks:
        locks.take(DEMO, HOST)
        for _ in range(13):
            clock.time += (START.resolution * 1_000_000) * 10
            locks.beat()
    assert [call for call in keeper.calls if call.startswith("beat")] == [
        f"beat 1 of {DEMO.text}",
        f"beat 2 of {DEMO.text}",
    ]


@pytest.mark.parametrize(("period", "an_hour"), [(30, 120), (60, 60), (240, 15)])
def test_the_heartbeats_of_an_hour_follow_from_the_period(period: int, an_hour: int, tmp_path: Path) -> None:
    keeper, clock = FakeLocks(), FixedClock()
    keeper.beat_seconds = period
    with RunLocks(keeper, FakeRunLog(), clock, tmp_path, LockHolder(run="one", since=START)) as locks:
        locks.take(DEMO, HOST)
        for _ in range(360):
            clock.pause(10)
            locks.beat()
    assert sum(call.startswith("beat") for call in keeper.calls) == an_hour


def test_what_waits_for_a_heartbeat_is_done_with_the_first_alone(tmp_path: Path) -> None:
    keeper, clock = FakeLocks(), FixedClock()
    done: list[int] = []
    with RunLocks(keeper, FakeRunLog(), clock, tmp_path, LockHolder(run="one", since=START)) as locks:
        locks.take(DEMO)
        locks.at_next_beat(lambda: done.append(len(keeper.calls)))
        for seconds in (59, 2, 61):
            clock.pause(seconds)
            locks.beat()
    assert done == [3]
    assert [call.partition(" ")[0] for call in keeper.calls] == ["read", "make", "beat", "beat", "remove"]


def test_nothing_is_done_with_the_heartbeat_of_a_lock_that_was_taken_away(tmp_path: Path) -> None:
    keeper, clock = FakeLocks(), FixedClock()
    with RunLocks(keeper, FakeRunLog(), clock, tmp_path, LockHolder(run="one", since=START)) as locks:
        locks.take(DEMO)
        locks.at_next_beat(lambda: pytest.fail("the run has no lock"))
        keeper.held.clear()
        clock.pause(61)
        with pytest.raises(LockLost):
            locks.beat()


def test_without_a_lock_there_is_no_heartbeat_to_wait_for(tmp_path: Path) -> None:
    done: list[str] = []
    with run_of(FakeLocks(), tmp_path) as locks:
        locks.at_next_beat(lambda: done.append("at once"))
    assert done == ["at once"]


def test_whoever_takes_the_lock_of_a_dead_run_away_leaves_word_of_it_before(tmp_path: Path) -> None:
    keeper = FakeLocks()
    occasion = Occasion("CHG0042", "the new course")
    with (
        killed(keeper, tmp_path, DEMO, HOST, user="anna", occasion=occasion),
        run_of(keeper, tmp_path, "two") as locks,
    ):
        keeper.pass_time(90)
        locks.take(DEMO)
    (text,) = log.texts
    entry = parse_entry(text)
    assert entry is not None
    assert (entry.run, entry.at, entry.plan, entry.user) == ("dead", START, "demo", "anna")
    assert (entry.occasion, entry.late_seconds, entry.digest) == (occasion, 90, "")
    assert entry.result is None


def test_a_lock_is_taken_away_where_no_word_can_be_left(tmp_path: Path) -> None:
    keeper = FakeLocks()
    log.failure = NotPermitted("the account lacks Global.LogEvent")
    with killed(keeper, tmp_path, DEMO), run_of(keeper, tmp_path, "two") as locks:
        locks.take(DEMO)
        assert [lock.holder and lock.holder.run for lock in keeper.held.values()] == ["two"]
    told = "the start of run dead was not recorded as a vCenter event: the account lacks Global.LogEvent"
    assert said[0] == told


def test_a_lock_that_was_taken_away_stops_the_run_for_good(tmp_path: Path) -> None:
    keeper, clock = FakeLocks(), FixedClock()
    with RunLocks(keeper, FakeRunLog(), clock, tmp_path, LockHolder(run="one", since=START)) as locks:
        locks.take(DEMO)
        keeper.held.clear()
        locks.beat()
        clock.time += START.resolution * 61_000_000
        for _ in range(2):
            with pytest.raises(LockLost, match="was removed"):
                locks.beat()


def test_who_may_make_no_lock_is_told_before_one_is_made(tmp_path: Path) -> None:
    keeper = FakeLocks(lacking=("Alarm.Create", "Alarm.Delete"))
    with (
        pytest.raises(NotPermitted, match=r"Alarm\.Create, Alarm\.Delete,") as raised,
        run_of(keeper, tmp_path) as locks,
    ):
        locks.take(DEMO)
    assert raised.value.exit_code == 5
    assert keeper.calls == ["read", f"make {DEMO.text}", "privileges"]
    assert not keeper.held
    assert not list(tmp_path.iterdir())


def test_a_lock_that_vcenter_refuses_all_the_same_is_refused_in_its_words(tmp_path: Path) -> None:
    class Strict(FakeLocks):
        def missing_privileges(self, *, to_remove: bool = False) -> tuple[str, ...]:
            return ()

    keeper = Strict(lacking=("Alarm.Create",))
    with pytest.raises(NotPermitted, match=r"^lacks Alarm\.Create$"), run_of(keeper, tmp_path) as locks:
        locks.take(DEMO)


def test_locks_that_may_not_be_removed_are_named_and_met_again(tmp_path: Path) -> None:
    keeper = FakeLocks(lacking=("Alarm.Delete",))
    with run_of(keeper, tmp_path) as locks:
        locks.take(DEMO, HOST)
    (told,) = said
    assert told.startswith(
        "the locks of run one remain: plan demo, host esx-07; "
        "remove them with `vgpu-cfg unlock one --server vc01.lab` from "
    )
    with pytest.raises(NotPermitted, match=r"Alarm\.Delete"), run_of(keeper, tmp_path, "two") as again:
        again.take(DEMO)
    assert said == [told, told]
    assert not log.texts
    assert len(keeper.held) == 2
    keeper.lacking = ()
    with run_of(keeper, tmp_path, "three") as mended:
        mended.take(DEMO)
    assert not keeper.held
    assert not list(tmp_path.iterdir())


def test_an_answer_that_was_lost_leaves_the_lock_the_runs_own(tmp_path: Path) -> None:
    keeper = FakeLocks()
    with run_of(keeper, tmp_path) as locks:
        keeper.make(DEMO, locks.holder)
        locks.take(DEMO)
    assert keeper.held == {}


def test_a_lock_that_tells_no_run_is_named_as_the_alarm_that_it_is(tmp_path: Path) -> None:
    keeper = FakeLocks()
    moid = keeper.make(DEMO, LockHolder(run="x", since=START))
    assert moid is not None
    keeper.held[moid] = keeper.held[moid].model_copy(update={"holder": None})
    with pytest.raises(Locked) as raised, run_of(keeper, tmp_path) as locks:
        locks.take(DEMO)
    assert "'vgpu-cfg lock: plan demo'" in raised.value.remedy


def test_what_cannot_be_given_back_is_told_and_ends_nothing(tmp_path: Path) -> None:
    class Gone(FakeLocks):
        def remove(self, moid: str) -> None:
            raise VCenterError("vCenter does not answer")

    with run_of(Gone(), tmp_path) as locks:
        locks.take(DEMO)
    assert said == [
        "this run's locks could not be released: vCenter does not answer. The next command on this "
        "machine removes them. On other machines, use `vgpu-cfg unlock one --server vc01.lab`"
    ]


class _LosingAnswers(FakeLocks):
    """A vCenter that makes the lock, and whose answer is lost."""

    lost: type[VCenterError] = AnswerLost

    def make(self, name: LockName, holder: LockHolder) -> str | None:
        made = FakeLocks.make(self, name, holder)
        if made is not None:
            raise self.lost("the answer was lost")
        return made


def test_a_lock_whose_answer_was_lost_is_had_if_it_was_made(tmp_path: Path) -> None:
    keeper = _LosingAnswers()
    with run_of(keeper, tmp_path) as locks:
        locks.take(DEMO)
        assert len(keeper.held) == 1
    assert keeper.held == {}


def test_a_lock_that_may_have_been_made_is_taken_over_by_the_next_run_here(tmp_path: Path) -> None:
    keeper = _LosingAnswers()
    keeper.lost = VCenterError
    with pytest.raises(VCenterError), run_of(keeper, tmp_path) as locks:
        locks.take(DEMO)
    left = FakeLocks(held=keeper.held)
    with run_of(left, tmp_path, "two") as locks:
        locks.take(DEMO)
    assert left.held == {}


@pytest.mark.parametrize(("mine", "theirs"), [(DEMO, DEMO_BY_ID), (DEMO_BY_ID, DEMO)])
def test_of_two_runs_that_know_a_plan_by_its_name_and_by_its_id_the_later_sees_the_other(
    mine: LockName, theirs: LockName, tmp_path: Path
) -> None:
    keeper = FakeLocks()
    with run_of(keeper, tmp_path) as first, run_of(keeper, tmp_path, "two") as second:
        first.take(theirs)
        assert first.is_alone(keeper.read())
        second.take(mine)
        with pytest.raises(Locked, match="another run has locked plan demo"):
            second.is_alone(keeper.read())
        # Whoever was first goes on, also where it reads again meanwhile.
        assert first.is_alone(keeper.read())


def test_two_plans_of_one_name_are_held_apart_and_those_of_two_names_are_not(tmp_path: Path) -> None:
    keeper = FakeLocks()
    namesake = LockName(kind="id", key="3f0c9a7e-52d1-4b86-9e24-000000000002", label="demo")
    other = LockName(kind="id", key="3f0c9a7e-52d1-4b86-9e24-000000000003", label="students")
    with run_of(keeper, tmp_path) as first, run_of(keeper, tmp_path, "two") as second:
        first.take(DEMO_BY_ID)
        with run_of(keeper, tmp_path, "three", plan="students") as third:
            third.take(other)
            assert third.is_alone(keeper.read())
            assert first.is_alone(keeper.read())
        second.take(namesake)
        with pytest.raises(Locked):
            second.is_alone(keeper.read())


def test_what_was_read_beside_the_lock_of_a_run_that_has_ended_is_read_again(tmp_path: Path) -> None:
    keeper = FakeLocks(running=[("CloneVM of ubuntu",)])
    with killed(keeper, tmp_path, DEMO, HOST), run_of(keeper, tmp_path, "two") as locks:
        locks.take(DEMO_BY_ID)
        assert not locks.is_alone(keeper.read())
        assert [lock.name for lock in keeper.held.values()] == [DEMO_BY_ID]
        assert "run dead has ended, but vCenter tasks are still running: CloneVM of ubuntu" in said[0]
        assert locks.is_alone(keeper.read())
