"""Runs put together from what they left: each once, the newest first, old journals among them."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import START
from tests.unit.execution.makers import create, estate, plan_of
from vgpu_cfg.execution import Journal, Run, Wanted, joined, runs_of_entries, runs_of_journals
from vgpu_cfg.model.runs import RunEntry, RunResult


def entry(number: int, **fields: object) -> RunEntry:
    """Return the beginning of the n-th run, an hour after the one before."""
    values = {
        "run": f"{number:012x}",
        "at": START + timedelta(hours=number),
        "command": "apply",
        "plan": "demo",
    }
    return RunEntry.model_validate(values | fields)


def keep(folder: Path, number: int) -> Path:
    """Keep the journal of the n-th run."""
    server, plan = estate(), plan_of(create("a"))
    with Journal.begin(folder, plan, entry(number)) as journal:
        journal.record_report(
            Run(plan, server, server, server, locks=undisputed(), on_event=journal.record_event).carry_out()
        )
    return journal.path


def as_of_0_1_0(path: Path) -> None:
    """Take from a journal what the first release did not write."""
    first, *others = path.read_text().splitlines()
    header = json.loads(first)["header"]
    for name in ("run", "command", "plan_id"):
        header.pop(name, None)
    path.write_text("\n".join([json.dumps({"header": header}), *others]) + "\n")


def test_a_run_stands_once_with_the_end_that_any_place_tells(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    begun = entry(1)
    ended = entry(1, result=RunResult.FAILED, at=START + timedelta(hours=3))
    told = runs_of_entries([ended, begun], "vCenter")
    (run,) = joined([*told, *runs_of_journals(tmp_path, "here", Wanted()).runs])
    assert (run.began_at, run.ended_at) == (begun.at, ended.at)
    assert run.known_from == ("vCenter", "here")
    assert run.journal is not None


def test_an_end_alone_tells_who_and_no_beginning() -> None:
    (run,) = joined(runs_of_entries([entry(1, result=RunResult.DONE, user="jane")], "vCenter"))
    assert (run.began_at, run.entry.user) == (None, "jane")


def test_an_end_tells_the_beginning_too_and_a_run_that_ended_since_is_wanted() -> None:
    ended = entry(3, result=RunResult.DONE, began_at=START)
    (run,) = joined(runs_of_entries([ended], "vCenter"))
    assert (run.began_at, run.ended_at) == (START, ended.at)
    assert Wanted(since=START + timedelta(hours=1)).means(run)
    assert not Wanted(since=START + timedelta(hours=4)).means(run)


def test_a_lock_says_least_of_a_run() -> None:
    locked = entry(1, at=START)
    begun = entry(1, digest="d93f0061", changes=5)
    ended = entry(1, digest="d93f0061", result=RunResult.DONE)
    of_lock, of_begun, of_ended = (
        next(runs_of_entries([one], place))
        for one, place in ((locked, "locks"), (begun, "vCenter"), (ended, "folder"))
    )
    for found in ([of_lock, of_begun], [of_begun, of_lock]):
        (run,) = joined(found)
        assert (run.began_at, run.entry) == (begun.at, begun)
        assert set(run.known_from) == {"locks", "vCenter"}
    # An end of an older version has no beginning with it.
    (run,) = joined([of_lock, of_ended])
    assert (run.began_at, run.ended_at, run.entry) == (START, ended.at, ended)


def test_the_newest_come_first_and_no_more_are_read_than_are_wanted(tmp_path: Path) -> None:
    for number in (1, 3, 2):
        keep(tmp_path, number)
    found = runs_of_journals(tmp_path, "here", Wanted(most=2)).runs
    assert [run.id for run in found] == [f"{3:012x}", f"{2:012x}"]
    since = Wanted(since=START + timedelta(hours=2))
    assert len(runs_of_journals(tmp_path, "here", since).runs) == 2


def test_a_journal_of_the_first_release_is_known_by_its_name(tmp_path: Path) -> None:
    path = keep(tmp_path, 1)
    as_of_0_1_0(path)
    (run,) = runs_of_journals(tmp_path, "here", Wanted(plan="demo", plan_id="any")).runs
    assert (run.id, run.entry.command) == (path.stem, "")


def test_another_vcenter_and_another_plan_are_left_out(tmp_path: Path) -> None:
    keep(tmp_path, 1)
    for wanted in (Wanted(address="vc99.example.com"), Wanted(plan="other")):
        assert runs_of_journals(tmp_path, "here", wanted).runs == ()


def test_a_file_that_is_no_journal_is_named(tmp_path: Path) -> None:
    path = tmp_path / "demo-00000000-20260302T210411Z.jsonl"
    path.write_text("nothing\n")
    found = runs_of_journals(tmp_path, "here", Wanted())
    assert (found.runs, found.unread) == ((), (path,))
    assert runs_of_journals(tmp_path / "nowhere", "here", Wanted()).runs == ()
