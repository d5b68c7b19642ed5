"""Journals that a disk, a reader or an editor has spoiled: the fault, its place, and what is read anyway."""

from __future__ import annotations

import errno
import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.fakes.fake_vcenter import START
from tests.unit.execution.makers import create, plan_of, power_on
from vgpu_cfg.changes.report import Event, EventKind, Outcome, OutcomeStatus, Report
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.execution import Journal, read_journal
from vgpu_cfg.execution.records.journal import FORMAT, InFlight
from vgpu_cfg.model.runs import RunEntry

VM = Subject(kind="vm", name="a")
ENTRY = RunEntry(run="5eed5eed5eed", at=START, command="apply", plan_id="id", user="anna", machine="jump")
HEADER = {"plan": "demo", "digest": "0a0b0c0d", "server": "vc", "started_at": "2026-03-02T21:04:11Z"}
HEAD = json.dumps({"header": HEADER})
PLAN = plan_of(create("a"), power_on("a"))


def event(kind: EventKind, change: str = "create a", *, seconds: int = 0, task: str | None = None) -> Event:
    return Event(kind=kind, change_id=change, subject=VM, at=START + timedelta(seconds=seconds), task=task)


def fault_in(path: Path, *lines: str) -> DocumentFault:
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(DocumentError) as caught:
        read_journal(path)
    (fault,) = caught.value.faults
    assert (fault.file, fault.column) == (str(path), 1)
    return fault


@pytest.mark.parametrize(
    ("lines", "line", "words"),
    [
        (("[1]",), 1, ["list"]),
        (('{"a": 1, "b": 2}',), 1, ["'a', 'b'"]),
        ((HEAD, "{", HEAD), 2, ["Expecting"]),
        ((HEAD, '{"event": {}}', HEAD), 2, ["Event"]),
        ((HEAD, '{"outcome": {}}', HEAD), 2, ["Outcome"]),
        ((HEAD, '{"report": {}}', HEAD), 2, ["Report"]),
        ((HEAD, '{"plan": {}}', HEAD), 2, ["Plan"]),
        (('{"header": {}}', HEAD), 1, ["JournalHeader"]),
        ((HEAD, HEAD, "[" * 50_000, HEAD), 3, []),
        (("",), 1, []),
        (('{"rollback": {}}', "{"), 1, ["header"]),
    ],
)
def test_a_line_that_is_none_is_told_with_its_number(
    tmp_path: Path, lines: tuple[str, ...], line: int, words: list[str]
) -> None:
    fault = fault_in(tmp_path / "a.jsonl", *lines)
    assert fault.line == line
    assert [word for word in words if word not in fault.message] == []


def test_a_journal_that_is_empty_or_no_text_is_refused(tmp_path: Path) -> None:
    assert "header" in fault_in(tmp_path / "empty.jsonl").message
    for name, content in (("binary.jsonl", b"\xff\xfe"), ("absent.jsonl", None)):
        path = tmp_path / name
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(DocumentError) as caught:
            read_journal(path)
        (fault,) = caught.value.faults
        assert (fault.file, fault.line, fault.column) == (str(path), 1, 1)


@pytest.mark.parametrize("last", ["{", '{"event": {', '{"other": 1}', "[" * 50_000, '{"event": {}}'])
def test_a_last_line_that_was_cut_off_is_passed_over(tmp_path: Path, last: str) -> None:
    path = tmp_path / "a.jsonl"
    started = event(EventKind.STARTED)
    path.write_text("\n".join((HEAD, started.model_dump_json().join(('{"event":', "}")), last)))
    record = read_journal(path)
    assert record.header.model_dump(exclude_defaults=True, mode="json") == HEADER
    assert (record.header.format, record.events, record.report) == (FORMAT, (started,), None)


def test_what_was_in_flight_has_its_tasks_and_its_beginning(tmp_path: Path) -> None:
    with Journal.begin(tmp_path, PLAN, ENTRY) as journal:
        for one in (
            event(EventKind.TASK, "create b", task="task-0"),
            event(EventKind.STARTED, seconds=1),
            event(EventKind.TASK, task="task-1", seconds=2),
            event(EventKind.TASK, task=None),
            event(EventKind.PROGRESS),
            event(EventKind.TASK, task="task-2"),
            event(EventKind.STARTED, "create c", seconds=3),
            event(EventKind.ENDED, "create c"),
            event(EventKind.ENDED, "create d"),
            event(EventKind.STARTED, "create e", seconds=4),
        ):
            journal.record_event(one)
    record = read_journal(journal.path)
    assert record.in_flight == (
        InFlight("create a", "a", ("task-1", "task-2"), START + timedelta(seconds=1)),
        InFlight("create e", "a", (), START + timedelta(seconds=4)),
    )
    assert EventKind.PROGRESS not in {one.kind for one in record.events}


def test_a_header_says_who_ran_what(tmp_path: Path) -> None:
    entry = (
        ENTRY.model_copy(update={"reviewed": "0f", "account": "anna@sso"})
        if hasattr(ENTRY, "model_copy")
        else ENTRY
    )
    with Journal.begin(tmp_path, PLAN, entry) as journal:
        pass
    header = read_journal(journal.path).header
    assert (header.run, header.command, header.plan, header.plan_id) == (entry.run, "apply", "demo", "id")
    assert (header.digest, header.server, header.instance_uuid) == (PLAN.digest, "vc01.example.com", "1234")
    assert (header.datacenter, header.user, header.host) == ("dc1", "anna", "jump")
    assert (header.account, header.reviewed) == ("anna@sso", "0f")
    assert (header.pid, header.started_at) == (os.getpid(), START)
    assert header.changes == ("create a", "power on a")


def test_a_report_is_read_with_its_outcomes_and_without_the_plan(tmp_path: Path) -> None:
    outcomes = tuple(
        Outcome(change_id=one.id, subject=one.subject, status=OutcomeStatus.DONE) for one in PLAN.changes
    )
    with Journal.begin(tmp_path, PLAN, ENTRY) as journal:
        journal.record_rollback(PLAN)
        journal.record_report(Report(plan="demo", digest=PLAN.digest, outcomes=outcomes))
    lines = [next(iter(json.loads(line))) for line in journal.path.read_text().splitlines()]
    assert lines == ["header", "plan", "rollback", "outcome", "outcome", "report"]
    record = read_journal(journal.path)
    assert record.report is not None
    assert (record.outcomes, record.report.outcomes) == (outcomes, outcomes)
    assert record.plan is not None
    assert record.plan.desired.vms == ()
    less = read_journal(journal.path, with_plan=False)
    assert (less.plan, less.report, less.path) == (None, record.report, journal.path)


@contextmanager
def no_more_than(size: int) -> Iterator[None]:
    """Let files of this process grow no further, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_is_full_ends_the_journal_and_says_where(tmp_path: Path) -> None:
    with Journal.begin(tmp_path, PLAN, ENTRY) as journal:
        assert (journal.problem, journal.problems) == ("", [])
        written = journal.path.stat().st_size
        with no_more_than(written):
            journal.record_event(event(EventKind.STARTED))
        assert os.strerror(errno.EFBIG) in journal.problem
        assert journal.problem.endswith(f": {journal.path}")
        assert journal.problems == [journal.problem]
        journal.record_event(event(EventKind.ENDED))
    assert journal.path.stat().st_size == written
    assert read_journal(journal.path).events == ()
