"""Plans and runs along a line: needs before what needs them, hosts down at once as few as asked, folded."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

from tests.extent import examples
from tests.plans.by_table import by_table, some
from tests.plans.planned import plan_of
from vgpu_cfg.changes.change import EnterMaintenance, ExitMaintenance, StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Outcome, OutcomeStatus, Report
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.render.views.run.timeline import plan_timeline, run_timeline, turns_of

BEGAN = datetime(2026, 11, 20, 21, 4, tzinfo=UTC)


@by_table(some(examples(1, 40), of=40))
def test_turns_follow_needs_and_no_wave_has_more_hosts_down_than_can_be(case: str) -> None:
    plan = plan_of(case)
    turns = dict(zip((change.id for change in plan.changes), turns_of(plan.changes), strict=True))
    for change in plan.changes:
        after = (*change.needs, *(change.after if isinstance(change, StageGuest) else ()))
        assert all(turns[need] < turns[change.id] for need in after if need in turns)
    ends = {one.host.name: turns[one.id] for one in plan.changes if isinstance(one, ExitMaintenance)}
    down: Counter[tuple[str, int]] = Counter()
    for change in plan.changes:
        if isinstance(change, EnterMaintenance) and not change.is_held:
            turn, end = turns[change.id], ends[change.host.name]
            down.update((change.wave, at) for at in range(turn, end + 1))
            assert all(down[change.wave, at] <= max(change.max_down, 1) for at in range(turn, end + 1))


def folded(plan: Plan) -> dict[str, str]:
    return {row.names: row.text for row in plan_timeline(plan).rows}


def test_vms_that_go_alike_are_one_row() -> None:
    found = folded(plan_of("guest-of-the-guides-pair"))
    assert [(names, text.split(", ")[:2]) for names, text in found.items()] == [
        ("hvd-{01..02}", ["created", "powered on"])
    ]


def test_windows_and_estimates_are_told_where_the_plan_has_them_and_not_where_it_has_none() -> None:
    (row,) = (one for one in plan_timeline(plan_of("host-window-open")).rows if one.subject == "host")
    assert "estimated at" in row.about
    assert "only in the window" in row.about
    assert [one.about for one in plan_timeline(plan_of("hosts-two-at-once")).rows] == [""] * 2


def run_of(plan: Plan, *statuses: OutcomeStatus) -> Report:
    outcomes = [
        Outcome(
            change_id=change.id,
            subject=change.subject,
            status=status,
            tasks=("task-1", "task-2"),
            started_at=BEGAN + timedelta(seconds=10 * at),
            ended_at=BEGAN + timedelta(seconds=10 * at + 4),
        )
        for at, (change, status) in enumerate(zip(plan.changes, statuses, strict=False))
    ]
    return Report(plan=plan.name, digest=plan.digest, outcomes=tuple(outcomes))


def test_a_run_is_drawn_by_its_seconds_and_what_was_not_begun_is_not() -> None:
    plan = plan_of("guest-of-the-guides-pair")
    line = run_timeline(plan.changes, run_of(plan, OutcomeStatus.DONE, OutcomeStatus.FAILED))
    bars = [(bar.start, bar.end, bar.kind) for row in line.rows for bar in row.bars]
    assert bars == [(0, 4, "make"), (10, 14, "failed")]
    assert line.length == 14
    assert "FAILED" in line.rows[-1].text
    assert "2 tasks" in line.rows[0].text
    assert [kind for kind, _ in line.legend] == ["make", "failed"]


def test_who_is_not_brought_back_is_away_to_the_end_of_the_line() -> None:
    plan = plan_of("profile-grows-with-room")
    kinds = [change.kind for change in plan.changes]
    assert kinds == ["power_off_vm", "reconfigure_vm", "power_on_vm"]
    done, failed = OutcomeStatus.DONE, OutcomeStatus.FAILED
    for statuses, words in (
        ((done, done, done), "away"),
        ((done, done, failed), "out of service, not returned"),
    ):
        (row,) = run_timeline(plan.changes, run_of(plan, *statuses)).rows
        assert [(bar.start, bar.end, bar.words) for bar in row.bars if bar.kind == "span"] == [(0, 24, words)]
    (row,) = run_timeline(plan.changes, run_of(plan, failed)).rows
    assert [bar.kind for bar in row.bars] == ["failed"]


def test_a_run_that_began_nothing_has_no_line() -> None:
    skipped = Outcome(change_id="a", subject=Subject(kind="vm", name="a"), status=OutcomeStatus.SKIPPED)
    plan = plan_of("guest-of-the-guides-pair")
    assert run_timeline(plan.changes, Report(plan="p", digest="d", outcomes=(skipped,))).rows == ()
