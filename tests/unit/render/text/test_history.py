"""History and locks of hundreds of hosts: a screen each, and failed steps are shown."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.render.run_displays import NOTES, RUNS, steps
from vgpu_cfg.model.locks import Lock, LockHolder, LockName, Locks
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.layout.most import MOST_LINES
from vgpu_cfg.render.text.run.history import render_history, render_locks, render_run, render_run_locks

NOW = datetime(2026, 1, 5, 8, tzinfo=UTC)
WIDTHS = pytest.mark.parametrize("width", [80, 110, 160])


@WIDTHS
def test_of_many_runs_the_newest_fill_a_screen(width: int) -> None:
    rows = [replace(RUNS[0], plan=f"upgrade-595.71-wave-{number:02}") for number in range(90)]
    lines = plain(render_history(rows, width, server="lab", notes=NOTES))
    assert len(lines.splitlines()) <= MOST_LINES
    assert "wave-00" in lines
    assert "more runs (-v shows all)" in lines
    assert "wave-89" in plain(render_history(rows, width, server="lab", notes=NOTES, with_all=True))


@WIDTHS
def test_of_many_steps_those_that_were_not_done_are_shown(width: int) -> None:
    done = next(step for step in steps() if step.is_done)
    many = [replace(done, number=number, title=f"reboot esx-{number:04}.lab") for number in range(1_800)]
    many[1_500] = replace(many[1_500], result="FAILED")
    lines = plain(render_run(RUNS[0], many, width, notes=NOTES, journal="run.jsonl"))
    assert len(lines.splitlines()) <= MOST_LINES
    assert "reboot esx-1500.lab" in lines
    assert "more steps (-v shows all)" in lines
    everything = render_run(RUNS[0], many, width, notes=NOTES, journal="run.jsonl", with_all=True)
    assert len(everything) > len(many)


def held(run: str, *names: LockName) -> list[Lock]:
    holder = LockHolder(run=run, command="apply", plan="demo", user="jo", machine="m", since=NOW)
    return [Lock(moid=f"alarm-{name.key}", name=name, holder=holder, beat_at=NOW) for name in names]


def of_hosts(numbers: range) -> list[LockName]:
    return [LockName(kind="host", key=f"host-{one}", label=f"esx-{one:03}.lab") for one in numbers]


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        (range(1, 4), "host esx-001.lab, host esx-002.lab, host esx-003.lab"),
        (range(1, 301), "300 hosts: esx-{001..300}.lab"),
        (range(1, 301, 3), "100 hosts: esx-001.lab, esx-004.lab, esx-007.lab, esx-010.lab, esx-013.lab, … "),
    ],
)
def test_the_locks_of_many_hosts_are_ranges(numbers: range, told: str) -> None:
    locks = held("r1", LockName(kind="plan", key="demo"), *of_hosts(numbers))
    text = " ".join(plain(render_run_locks(Locks(now=NOW, held=tuple(locks)), "r1", 200)).split())
    assert f"plan demo, {told}" in text


@WIDTHS
def test_many_runs_with_locks_fill_a_screen(width: int) -> None:
    locks = [lock for one in range(200) for lock in held(f"r{one}", *of_hosts(range(one, one + 5)))]
    unknown = [lock.model_copy(update={"holder": None}) for lock in held("r1", *of_hosts(range(900, 990)))]
    found = Locks(now=NOW, held=(*locks, *unknown))
    text = plain(render_locks(found, width, server="lab"))
    assert len(text.splitlines()) <= MOST_LINES
    assert "more runs (--output json lists all)" in text
    assert "84 more without a run ID" in text
