"""A run past a canary: it is asked about while nothing is under way, and what waits begins or does not."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.fake_locks import undisputed
from tests.fakes.fake_vcenter import FakeVCenter
from tests.unit.execution.makers import (
    add_own_vm,
    create,
    estate,
    plan_of,
    power_off,
    power_on,
    reconfigure,
    statuses,
)
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.plan import Canary
from vgpu_cfg.changes.report import CanaryResult, Event, EventKind, Report
from vgpu_cfg.execution import Run, RunOptions, exit_code_of, one_is_enough
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.runs import OnFailure

CANARY = Canary(
    names=("a",), others=("b",), first=("create a", "power on a"), held=("create b", "power on b")
)
CHANGES = (create("a"), create("b"), power_on("a"), power_on("b"), create("free"))
YES: dict[str, Any] = {"goes_on": True}
NO: dict[str, Any] = {}
BROKEN: dict[str, Any] = {"problems": ("a: it does not run",)}


@dataclass
class Watched:
    """A run whose canary is answered for; `begun` is what had begun by the time that it was asked about."""

    answer: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    asked: int = 0

    def run(self, server: FakeVCenter, *changes: Change, canary: Canary = CANARY, **more: Any) -> Report:
        options = RunOptions(**more.pop("options", {}))
        return Run(
            plan_of(*changes, canaries=(canary,)),
            server,
            server,
            server,
            locks=undisputed(),
            options=options,
            on_event=self.events.append,
            pass_canary=self.answered,
            **more,
        ).carry_out()

    def answered(self, canary: Canary) -> CanaryResult:
        self.asked += 1
        self.begun = [one.change_id for one in self.events if one.kind is EventKind.STARTED]
        ended = [one.change_id for one in self.events if one.kind is EventKind.ENDED]
        assert sorted(ended) == sorted(self.begun), "nothing is under way"
        return CanaryResult(names=canary.names, others=canary.others, **self.answer)


def test_what_waits_begins_once_the_answer_is_yes() -> None:
    watched = Watched(YES)
    report = watched.run(estate(), *CHANGES)
    assert set(watched.begun) == {"create a", "power on a", "create free"}
    assert set(statuses(report).values()) == {"done"}
    assert (watched.asked, report.canaries[0].goes_on, exit_code_of(report)) == (1, True, 0)


@pytest.mark.parametrize(
    ("answer", "code", "why"),
    [
        (NO, 130, "you answered no after the canary a"),
        (BROKEN, 6, "the canary a does not match the plan"),
    ],
)
def test_what_waits_does_not_begin_otherwise(answer: dict[str, Any], code: int, why: str) -> None:
    report = Watched(answer).run(estate(), *CHANGES)
    assert statuses(report) == {
        "create a": "done",
        "create b": "skipped",
        "power on a": "done",
        "power on b": "skipped",
        "create free": "done",
    }
    assert {one.message for one in report.outcomes if one.status == "skipped"} == {why}
    assert f"b: not started: {why}" in map(str, report.left_behind)
    assert exit_code_of(report) == code


def test_nobody_is_asked_where_the_canary_fails_and_nothing_more_begins() -> None:
    server = estate(failures={("create_vm", 1): ("InsufficientResourcesFault", "no room")})
    watched = Watched(YES)
    report = watched.run(server, *CHANGES, options={"parallel": 1})
    assert (watched.asked, exit_code_of(report)) == (0, 6)
    assert statuses(report) == dict.fromkeys(statuses(report), "skipped") | {"create a": "failed"}
    assert any(str(one).startswith("b: not started: the canary failed: a: ") for one in report.left_behind)


def test_a_run_that_is_stopped_before_asks_nobody() -> None:
    watched = Watched(YES)
    report = watched.run(estate(), *CHANGES, stop=lambda: len(watched.events) > 2)
    assert (watched.asked, exit_code_of(report)) == (0, 130)


@pytest.mark.parametrize(
    ("answer", "on_failure", "back"),
    [
        (NO, OnFailure.GO_ON, "done"),
        (NO, OnFailure.ROLL_BACK, "done"),  # whoever said no is not taken back
        (BROKEN, OnFailure.STOP, "done"),
        (BROKEN, OnFailure.ROLL_BACK, "skipped"),
    ],
)
def test_what_is_out_of_service_comes_back(answer: dict[str, Any], on_failure: OnFailure, back: str) -> None:
    """The VM `b` was switched off for what the canary needed, and waits to be started again."""
    server = estate()
    add_own_vm(server, "b", "vm-b", power_state=PowerState.ON)
    changes: list[Change] = [
        power_off("b", "vm-b", host_moid="host-1"),
        create("a"),
        power_on("a"),
        reconfigure("b", "vm-b", VmSpec(settings={"cpus": 8}), needs=("power off b",)),
        power_on("b", moid="vm-b", needs=("reconfigure b",)),
    ]
    canary = CANARY.model_copy(update={"held": ("reconfigure b", "power on b")})
    report = Watched(answer).run(server, *changes, canary=canary, options={"on_failure": on_failure})
    assert statuses(report)["power on b"] == back


def test_a_plan_with_canaries_needs_who_verifies_them() -> None:
    server = estate()
    with pytest.raises(ValueError, match="requires `pass_canary`"):
        Run(plan_of(*CHANGES, canaries=(CANARY,)), server, server, server, locks=undisputed()).carry_out()
    assert server.calls == []


def test_one_signal_is_enough_at_a_question() -> None:
    before = signal.getsignal(signal.SIGTERM)
    for number in (signal.SIGINT, signal.SIGTERM):
        with pytest.raises(KeyboardInterrupt), one_is_enough():
            signal.raise_signal(number)
    assert signal.getsignal(signal.SIGTERM) is before
