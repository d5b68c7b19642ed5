from __future__ import annotations

from datetime import timedelta

from tests.unit.render import host_reports, host_samples, samples
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.render.markdown.runbook import render_as_run
from vgpu_cfg.render.views.run.run_steps import steps_done

PLAN = host_samples.two_with_one_reboot()
DONE = host_reports.all_done(PLAN)


def test_every_step_has_its_time_its_result_and_its_tasks() -> None:
    steps = steps_done(PLAN, host_reports.events(DONE), DONE)
    assert {step.result for step in steps} == {"done"}
    reboot = steps[4]
    assert (reboot.number, reboot.title, reboot.took) == (5, "reboot esx-01", "11 min")
    assert reboot.tasks == ("task-4",)
    assert reboot.began


def test_what_was_read_back_is_told_with_what_it_comes_to() -> None:
    failed = host_reports.failed_report(PLAN)
    steps = steps_done(PLAN, (), failed)
    assert ("ats", "TRUE", "TRUE", "FALSE", "pending cold boot") in steps[10].readings
    assert ("graphics_type", "sharedDirect", "sharedDirect", "sharedDirect", "as expected") in steps[
        10
    ].readings
    assert steps[11].result == "skipped"
    assert not steps[11].began


def test_without_a_report_the_events_tell_how_far_it_got() -> None:
    events = host_reports.events(DONE)
    begun = next(event for event in events if event.kind is EventKind.STARTED and "reboot" in event.change_id)
    cut = events[: events.index(begun) + 1]
    steps = steps_done(PLAN, cut, None)
    assert [step.result for step in steps[:6]] == [*["done"] * 4, "not finished", "not started"]
    assert "interrupted" in render_as_run(PLAN, cut, None)


def test_remarks_of_the_journal_are_kept() -> None:
    change = PLAN.changes[0]
    note = Event(
        at=samples.READ_AT + timedelta(seconds=5),
        kind=EventKind.NOTE,
        change_id=change.id,
        subject=change.subject,
        message="no alarm was created on the host: | not `permitted`",
    )
    text = render_as_run(PLAN, [note], DONE)
    assert "- no alarm was created on the host: \\| not \\`permitted\\`" in text


def test_a_run_that_had_nothing_to_do_says_so_for_each_step() -> None:
    outcomes = [
        host_reports.outcome(PLAN, change.id, OutcomeStatus.NOT_NEEDED, message="already done")
        for change in PLAN.changes
    ]
    steps = steps_done(PLAN, (), host_reports.report_of(PLAN, outcomes))
    assert {(step.result, step.message) for step in steps} == {("already done", "already done")}
