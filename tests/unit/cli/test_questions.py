from __future__ import annotations

import os
import pty
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass

import pytest

from vgpu_cfg.cli.notice import confirm

QUESTION = "Make these 4 changes?"


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal: the side that a person sits at, and the other."""

    ours: int
    theirs: int

    def read_until(self, words: str) -> str:
        shown = ""
        while words not in shown:
            shown += os.read(self.ours, 4096).decode()
        return shown

    def type(self, keys: str) -> None:
        os.write(self.ours, keys.encode())

    def answered(self, person: Callable[[], None] = lambda: None) -> bool:
        """Ask at it, while a person does something beside it."""
        beside = threading.Thread(target=person, daemon=True)
        with (
            pytest.MonkeyPatch.context() as patch,
            open(self.theirs, encoding="ascii", closefd=False) as stdin,
            open(self.theirs, "w", encoding="ascii", closefd=False) as stderr,
            redirect_stderr(stderr),
        ):
            patch.setattr(sys, "stdin", stdin)
            beside.start()
            answer = confirm(QUESTION)
        beside.join(timeout=120)
        return answer


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    yield Terminal(ours, theirs)
    os.close(theirs)
    os.close(ours)


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("y\n", True), (" YES\n", True), ("n\n", False), ("No\n", False), ("\n", False), ("\x04", False)],
)
def test_what_is_typed_is_the_answer(keys: str, answer: bool, terminal: Terminal) -> None:
    def person() -> None:
        assert terminal.read_until("[y/N]: ") == f"{QUESTION} [y/N]: "
        terminal.type(keys)

    assert terminal.answered(person) is answer


def test_a_word_that_is_neither_is_asked_about_again(terminal: Terminal) -> None:
    shown = []

    def person() -> None:
        terminal.read_until("[y/N]: ")
        terminal.type("maybe\n")
        shown.append(terminal.read_until("[y/N]: "))
        terminal.type("y\n")

    assert terminal.answered(person)
    assert "Error: invalid input" in shown[0]


def test_what_was_typed_before_the_question_is_read(terminal: Terminal) -> None:
    terminal.type("y\n")
    assert terminal.answered()


def test_a_ctrl_c_that_comes_before_the_read_is_not_lost(terminal: Terminal) -> None:
    # A signal that another thread takes does not wake the one that reads: so it is with one that comes to the
    # thread that is just about to read.
    def person() -> None:
        terminal.read_until("[y/N]: ")
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    assert not terminal.answered(person)


def test_a_signal_that_says_nothing_is_no_answer(terminal: Terminal) -> None:
    came = threading.Event()
    before = signal.signal(signal.SIGUSR1, lambda *_: came.set())

    def person() -> None:
        terminal.read_until("[y/N]: ")
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        came.wait(timeout=120)
        terminal.type("y\n")

    try:
        assert terminal.answered(person)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert came.is_set()


def test_how_signals_are_told_is_as_it_was(terminal: Terminal) -> None:
    terminal.type("n\n")
    terminal.answered()
    assert signal.set_wakeup_fd(-1) == -1
