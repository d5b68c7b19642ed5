from __future__ import annotations

import json
import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import START
from tests.unit.execution import host_makers
from tests.unit.execution.makers import create, estate, plan_of, power_on, run, spec_of
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.execution import Journal, Run, find_journals, read_journal
from vgpu_cfg.execution.records.journal import MOST_BYTES, JournalHeader
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.runs import RunEntry


def entry(hours: int = 0, *, user: str = "", machine: str = "") -> RunEntry:
    """Return who runs a plan, some hours after the beginning of time."""
    return RunEntry(run="5eed5eed5eed", at=START + timedelta(hours=hours), user=user, machine=machine)


def keep(folder: Path, *, until: int | None = None) -> Path:
    """Run two changes with a journal; `until` cuts the journal after so many events."""
    server = estate()
    plan = plan_of(create("a"), power_on("a"))
    with Journal.begin(folder, plan, entry(user="EXAMPLE\\anna", machine="jump-01")) as journal:
        report = Run(
            plan, server, server, server, locks=undisputed(), on_event=journal.record_event
        ).carry_out()
        journal.record_report(report)
    if until is not None:
        lines = journal.path.read_text().splitlines(keepends=True)
        journal.path.write_text("".join(lines[: until + 2]))
    return journal.path


def test_a_journal_holds_the_plan_and_nothing_that_its_vms_are_asked_to_hold(tmp_path: Path) -> None:
    plan = read_journal(keep(tmp_path)).plan
    assert plan is not None
    assert [change.id for change in plan.changes] == ["create a", "power on a"]
    made = plan.changes[0]
    assert made.kind == "create_vm"
    assert made.spec.extra_config == {}
    assert plan.desired.vms == ()


def test_a_journal_is_named_by_plan_digest_and_time_and_is_the_users_own(tmp_path: Path) -> None:
    path = keep(tmp_path / "journals")
    digest = plan_of(create("a"), power_on("a")).digest
    assert path.name == f"demo-{digest}-20260302T210411Z.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_journal_reads_back_as_what_happened(tmp_path: Path) -> None:
    record = read_journal(keep(tmp_path))
    assert record.header.user == "EXAMPLE\\anna"
    assert record.header.changes == ("create a", "power on a")
    assert [event.kind for event in record.events if event.change_id == "create a"] == [
        "started",
        "task",
        "ended",
    ]
    assert record.report is not None
    assert [outcome.status for outcome in record.report.outcomes] == ["done", "done"]
    assert record.in_flight == ()


def test_the_header_names_all_that_the_entry_of_a_run_has(tmp_path: Path) -> None:
    words: dict[str, Any] = {
        name: f"the {name}" for name in ("command", "plan_id", "reviewed", "user", "machine", "account")
    }
    begun = RunEntry(run="5eed5eed5eed", at=START, occasion=Occasion("CHG1", "new driver"), **words)
    plan = plan_of(create("a"))
    with Journal.begin(tmp_path, plan, begun) as journal:
        pass
    assert read_journal(journal.path).header == JournalHeader(
        run=begun.run,
        plan="demo",
        digest=plan.digest,
        server=plan.target.address,
        instance_uuid=plan.target.instance_uuid,
        datacenter=plan.target.datacenter,
        host=words.pop("machine"),
        pid=os.getpid(),
        occasion=begun.occasion,
        started_at=START,
        changes=("create a",),
        **words,
    )


def test_a_journal_keeps_what_every_setting_showed(tmp_path: Path) -> None:
    server = host_makers.estate()
    change = host_makers.change(host_makers.ATS)
    with Journal.begin(tmp_path, plan_of(change), entry()) as journal:
        report, _ = host_makers.run(server, change)
        journal.record_report(report)
    record = read_journal(journal.path)
    (reading,) = record.outcomes[0].readings
    assert (reading.setting, reading.wanted, reading.configured) == ("ats", "TRUE", "TRUE")
    assert (reading.runtime, reading.waits_for) == ("FALSE", "reboot")
    assert record.report == report


def test_a_run_that_broke_off_tells_what_was_in_flight(tmp_path: Path) -> None:
    record = read_journal(keep(tmp_path, until=5))
    assert record.report is None
    assert [(found.change_id, found.tasks) for found in record.in_flight] == [("power on a", ("task-2",))]


def test_a_run_that_came_to_its_end_is_not_unfinished(tmp_path: Path) -> None:
    record = read_journal(keep(tmp_path))
    assert record.report is not None
    assert not record.in_flight


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = keep(tmp_path, until=5)
    with path.open("a") as journal:
        journal.write('{"event": {"at": "2026-')
    assert len(read_journal(path).events) == 5


def test_a_damaged_line_is_told_with_its_number(tmp_path: Path) -> None:
    path = keep(tmp_path)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], "not json", *lines[1:]]))
    with pytest.raises(DocumentError) as raised:
        read_journal(path)
    assert raised.value.faults[0].line == 2


@pytest.mark.parametrize("text", ["", "{}\n", '{"event": {}}\n'])
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(text)
    with pytest.raises(DocumentError):
        read_journal(path)


def test_what_others_put_into_a_shared_folder_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    (tmp_path / "endless.jsonl").symlink_to("/dev/zero")
    (tmp_path / "circle.jsonl").symlink_to("circle.jsonl")
    with (tmp_path / "huge.jsonl").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    (tmp_path / "deep.jsonl").write_text("[" * 100_000)
    for path in sorted(tmp_path.iterdir()):
        with pytest.raises(DocumentError):
            read_journal(path)


def test_runs_are_found_newest_first_and_by_their_own_plan_only(tmp_path: Path) -> None:
    plan = plan_of(create("a"))
    other = plan_of(create("a"), name="demo-2")
    for hours in (0, 2, 1):
        Journal.begin(tmp_path, plan, entry(hours)).close()
    Journal.begin(tmp_path, plan, entry(2)).close()
    Journal.begin(tmp_path, other, entry()).close()
    assert [path.name[14:] for path in find_journals(tmp_path, "demo")] == [
        "20260302T230411Z-2.jsonl",
        "20260302T230411Z.jsonl",
        "20260302T220411Z.jsonl",
        "20260302T210411Z.jsonl",
    ]


def test_what_a_request_holds_does_not_get_into_the_journal(tmp_path: Path) -> None:
    server = estate(drops=frozenset({"extra_config"}))
    secret = spec_of(
        "a", extra_config={"vgpu_cfg.plan": "demo", "vgpu_cfg.vm": "a", "guestinfo.userdata": "hunter2"}
    )
    plan = plan_of(create("a", spec=secret))
    with Journal.begin(tmp_path, plan, entry()) as journal:
        journal.record_report(
            Run(plan, server, server, server, locks=undisputed(), on_event=journal.record_event).carry_out()
        )
    assert "hunter2" not in journal.path.read_text()
    assert all(json.loads(line) for line in journal.path.read_text().splitlines())


def test_a_folder_that_cannot_be_written_stops_the_journal_and_not_the_run(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    journal = Journal.begin(blocker / "journals", plan_of(), entry())
    assert "cannot write the journal" in journal.problem
    report, _ = run(estate(), create("a"))
    journal.record_report(report)
