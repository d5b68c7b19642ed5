"""A run as a page: what it came to in the words of the text, what is left, names that stay text."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.plans.planned import plan_of
from tests.unit.render.page_data import data_in
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, LeftBehind, Outcome, OutcomeStatus, Report, Rollback
from vgpu_cfg.render.data.documents import report_data
from vgpu_cfg.render.page.plan import render_run_page
from vgpu_cfg.render.views.run.run_steps import run_counts

HOSTILE = "</script><script>alert(1)</script>\"'&amp;\u202ex"
CASE = "addresses-stay-when-workers-come"
BEGAN = datetime(2026, 11, 20, 21, 4, 11, tzinfo=UTC)
DONE, FAILED, SKIPPED = OutcomeStatus.DONE, OutcomeStatus.FAILED, OutcomeStatus.SKIPPED


def report_of(plan: Plan, *statuses: OutcomeStatus, message: str = "", **update: Any) -> Report:
    outcomes = [
        Outcome(
            change_id=change.id,
            subject=change.subject,
            status=status,
            started_at=BEGAN + timedelta(seconds=at) if status is not SKIPPED else None,
            ended_at=BEGAN + timedelta(seconds=at + 1) if status is not SKIPPED else None,
            message=message if status is not DONE else "",
        )
        for at, (change, status) in enumerate(zip(plan.changes, statuses, strict=False))
    ]
    return Report(plan=plan.name, digest=plan.digest, outcomes=tuple(outcomes), **update)


def page_of(plan: Plan, report: Report, events: tuple[Event, ...] = ()) -> tuple[str, dict[str, Any]]:
    told = report_data(plan, report)
    page = render_run_page(plan, report, told, events)
    data = data_in(page)
    assert data["told"] == json.loads(json.dumps(told))
    return page, data


def part(page: str, name: str) -> str:
    return page[page.index(f'id="{name}-title"') :].partition("</section>")[0]


def test_its_figures_are_those_of_the_text_and_its_times_are_utc() -> None:
    plan = plan_of(CASE)
    report = report_of(plan, DONE, DONE)
    page, _ = page_of(plan, report)
    tiles = re.findall(r'class="value">(.*?)</p><p class="what">(.*?)</p>', page)
    assert tiles[0] == ("done", "in 2 s")
    assert [" ".join(one) for one in tiles[1:]] == run_counts(plan, report)
    assert "21:04:12 UTC" in part(page, "steps")
    assert "<li>None.</li>" in part(page, "left")
    assert "failed-title" not in page


def test_what_failed_and_what_was_not_begun_is_told_with_why() -> None:
    plan = plan_of(CASE)
    page, _ = page_of(plan, report_of(plan, FAILED, SKIPPED, message="the datastore is full"))
    assert "the datastore is full" in part(page, "failed")
    assert f"<b>{plan.changes[1].id}</b>" in part(page, "left")
    assert "not started: the datastore is full" in part(page, "left")


def test_a_rollback_is_on_the_line_and_what_it_left_is_left() -> None:
    plan = plan_of(CASE)
    undone = plan.changes[0].model_copy(update={"id": "undo it"})
    ended = Outcome(
        change_id="undo it", subject=undone.subject, status=DONE, started_at=BEGAN, ended_at=BEGAN
    )
    rollback = Rollback(changes=(undone,), outcomes=(ended,), left_behind=(LeftBehind(name="a disk"),))
    page, _ = page_of(plan, report_of(plan, DONE, FAILED, message="no", rollback=rollback))
    assert "undo it" in part(page, "steps")
    assert "a disk" in part(page, "left")


def test_what_was_noted_on_the_way_stands_with_its_step_and_progress_does_not() -> None:
    plan = plan_of(CASE)
    first = plan.changes[0]
    events = tuple(
        Event(at=BEGAN, kind=kind, change_id=first.id, subject=first.subject, message="tried again")
        for kind in (EventKind.NOTE, EventKind.PROGRESS)
    )
    page, data = page_of(plan, report_of(plan, DONE), events)
    assert part(page, "steps").count("tried again") == 1
    assert [event["kind"] for event in data["events"]] == ["note"]


def test_a_run_with_nothing_to_do_says_so() -> None:
    plan = plan_of("cordon-lets-run")
    page, _ = page_of(plan, Report(plan=plan.name, digest=plan.digest))
    assert "nothing to do" in page
    assert "line-title" not in page


def test_a_hostile_name_is_text_in_the_page_and_whole_in_its_data() -> None:
    plan = plan_of(CASE).model_copy(update={"name": HOSTILE})
    page, data = page_of(
        plan, report_of(plan, FAILED, message=HOSTILE, left_behind=(LeftBehind(name=HOSTILE),))
    )
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    assert "\u202e" not in page
    assert data["plan"]["name"] == data["told"]["left_behind"][0] == HOSTILE
