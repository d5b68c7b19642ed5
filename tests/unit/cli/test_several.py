"""Questions side by side: told in their order, a failure that hides nobody's answer, one Ctrl-C for all."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from threading import Barrier

import pytest

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.output.answers import Answer
from vgpu_cfg.cli.several import MOST_AT_ONCE, Question, ask_all
from vgpu_cfg.errors import Interrupted, Unreachable

LONG = 60
"""Seconds that no test comes near: a wait must end, even where the code is wrong."""


def question(name: str, ask: Callable[[], Answer]) -> Question:
    return Question(name, f"{name}.example.com", ask)


def answer(figure: int) -> Answer:
    return Answer(lambda _width: (), dict, {"hosts": figure})


def test_they_are_asked_at_the_same_time_and_told_in_their_order() -> None:
    together = Barrier(3)

    def ask(figure: int) -> Callable[[], Answer]:
        def wait() -> Answer:
            together.wait(LONG)  # broken, unless all three are here at once
            return answer(figure)

        return wait

    told = ask_all([question(f"vc{n}", ask(n)) for n in range(3)])
    assert [(one.name, one.answer and one.answer.figures["hosts"]) for one in told] == [
        ("vc0", 0),
        ("vc1", 1),
        ("vc2", 2),
    ]


def test_more_than_may_be_asked_at_once_are_asked_all_the_same() -> None:
    count = 2 * MOST_AT_ONCE + 1
    told = ask_all([question(f"vc{n}", lambda: answer(1)) for n in range(count)])
    assert sum(one.answer is not None for one in told) == count
    assert ask_all([]) == ()


@pytest.mark.parametrize("error", [Unreachable("no route to host"), ZeroDivisionError("a bug")])
def test_what_goes_wrong_at_one_is_its_own(error: Exception) -> None:
    def fail() -> Answer:
        raise error

    first, second = ask_all([question("bad", fail), question("good", lambda: answer(1))])
    assert (first.answer, first.error) == (None, error)
    assert second.error is None
    assert second.answer is not None


class Wire:
    """A server that answers whatever it is sent with nothing."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        self.sent.append(body)
        return 200, {}, b""

    def close(self) -> None:
        self.sent.append(b"closed")


def test_ctrl_c_ends_all_of_them_and_lets_them_log_out() -> None:
    wires, both = [Wire(), Wire()], Barrier(2)

    def read(wire: Wire, *, interrupts: bool) -> Answer:
        guarded = compose.until_stopped(wire, "vc")
        try:
            guarded.exchange("POST", "/sdk", {}, b"<Login ")
            both.wait(LONG)
            if interrupts:
                os.kill(os.getpid(), signal.SIGINT)
            while True:
                guarded.exchange("POST", "/sdk", {}, b"<RetrieveContent ")
        finally:
            guarded.exchange("POST", "/sdk", {}, b"<Logout xmlns")
            guarded.close()

    questions = [
        question("one", lambda: read(wires[0], interrupts=True)),
        question("two", lambda: read(wires[1], interrupts=False)),
    ]
    with pytest.raises(Interrupted, match="stopped before all vCenters were read") as refused:
        ask_all(questions)
    assert (refused.value.exit_code, refused.value.subject) == (130, "one, two")
    assert [wire.sent[-2:] for wire in wires] == [[b"<Logout xmlns", b"closed"]] * 2


def test_alone_a_wire_is_nobody_elses() -> None:
    wire = Wire()
    assert compose.until_stopped(wire, "vc") is wire
