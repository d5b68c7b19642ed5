"""A training is paused and resumed by `train` in the guest: its mark, its answer, and each way to fail."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fakes.fake_guests import FakeGuests, FakeGuestShell
from tests.unit.execution.guest_makers import guests_of, options_of, run_guests, running, spec_of
from vgpu_cfg.changes.change import PauseTraining, ResumeTraining
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.execution.guests.training import ANSWER_FILE
from vgpu_cfg.model.guests.guest import PAUSED, TRAINING_KEY

TRAIN = "/usr/local/bin/train"
SAVED = "train: saving\ntrain: paused on a checkpoint\n"
PAUSE = PauseTraining(
    id="pause",
    subject=Subject(kind="vm", name="hvd-01"),
    vm=VmRef(name="hvd-01", moid="vm-7"),
    spec=spec_of("hvd-01"),
    hook="kill -USR1 1",
    seconds=120,
)
RESUME = ResumeTraining(id="resume", subject=PAUSE.subject, vm=PAUSE.vm, spec=PAUSE.spec)


@dataclass
class Training(FakeGuests):
    """Guests in which `train` prints `said`, then ends with `status` after so many polls; None: never."""

    said: str = ""
    status: int | None = 0
    polls: int = 2
    started: list[tuple[str, ...]] = field(default_factory=list)
    marked: list[str] = field(default_factory=list)
    """The VM's mark at each start."""

    def connect(self, target: Any, login: Any) -> TrainingShell:
        super().connect(target, login)
        return TrainingShell(self, target.name)


class TrainingShell(FakeGuestShell):
    def start(self, arguments: Sequence[str]) -> None:
        guests: Any = self.guests
        guests.started.append(tuple(arguments))
        guests.marked.append(options_of(self.guests.server, self.name).get(TRAINING_KEY, ""))

    def read_file(self, path: str) -> bytes | None:
        guests: Any = self.guests
        assert path == ANSWER_FILE
        guests.polls -= 1
        if guests.status is None or guests.polls > 0:
            return b"run-9 0\n"  # of an earlier attempt
        return f"{guests.said}run-0 {guests.status}\n".encode()


def asked(
    change: PauseTraining | ResumeTraining, before: str = "", **fields: Any
) -> tuple[Outcome, str, Training]:
    """Return the outcome, the mark that the VM has afterwards, and the guests."""
    server, _ = guests_of("hvd-01")
    running(server, "hvd-01", "vm-7", **({TRAINING_KEY: before} if before else {}))
    guests = Training(server, **fields)
    report, _ = run_guests(server, guests, change)
    (outcome,) = report.outcomes
    return outcome, options_of(server, "hvd-01").get(TRAINING_KEY, ""), guests


def test_a_training_is_marked_then_paused_and_stays_marked() -> None:
    outcome, mark, guests = asked(PAUSE, said=SAVED)
    assert (outcome.status, outcome.message, mark) == ("done", "paused on a checkpoint", PAUSED)
    assert guests.marked == [PAUSED]
    ((shell, flag, script),) = guests.started
    assert (shell, flag) == ("sh", "-c")
    assert shlex.join((TRAIN, "--pause", "--timeout", "120", "sh", "-c", "kill -USR1 1")) in script
    assert "run-0 $?" in script
    assert guests.closed == ["hvd-01"]


def test_a_pause_without_a_mark_writes_none() -> None:
    outcome, mark, guests = asked(PAUSE.model_copy(update={"is_marked": False}))
    assert (outcome.status, outcome.message, mark) == ("done", "no reason given", "")
    assert guests.server.started("reconfigure_vm") == []


def test_a_training_is_resumed_and_loses_its_mark() -> None:
    outcome, mark, guests = asked(RESUME, PAUSED, said="train: resumed\n")
    assert (outcome.status, outcome.message, mark) == ("done", "resumed", "")
    assert guests.marked == [PAUSED]


@pytest.mark.parametrize(
    ("change", "fields", "message", "mark"),
    [
        (
            PAUSE,
            {"status": 1, "said": "train: hvd-02 cannot save\n"},
            "hvd-01: training was not paused: hvd-02 cannot save",
            "",
        ),
        (
            RESUME,
            {"status": 3},
            "hvd-01: training was not resumed: no reason given",
            PAUSED,
        ),
        (PAUSE, {"status": None}, "hvd-01: `train` did not respond in time", PAUSED),
        (RESUME, {"status": None}, "hvd-01: `train` did not respond in time", PAUSED),
    ],
)
def test_a_training_that_does_not_follow_fails_its_step(
    change: PauseTraining | ResumeTraining, fields: dict[str, Any], message: str, mark: str
) -> None:
    outcome, kept, guests = asked(change, PAUSED if change is RESUME else "", **fields)
    assert (outcome.status, outcome.message, kept) == ("failed", message, mark)
    assert guests.closed == ["hvd-01"]


@pytest.mark.parametrize(("change", "seconds"), [(PAUSE, 300), (RESUME, 900)])
def test_an_answer_is_waited_for_as_long_as_saving_takes(
    change: PauseTraining | ResumeTraining, seconds: int
) -> None:
    _, _, guests = asked(change, status=None)
    began = guests.server.guests["hvd-01"].booted_at
    assert began is not None
    assert seconds <= guests.server.time.timestamp() - began < seconds + 60
