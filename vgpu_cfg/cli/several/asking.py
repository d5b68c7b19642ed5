"""How several questions are asked side by side: each in a thread, failing for itself, and Ctrl-C ends all.

A reading waits for its vCenter most of the time, and threads wait together. What is written is written by a
run, which is one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Event, Thread

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.output.answers import Answer
from vgpu_cfg.errors import Interrupted

MOST_AT_ONCE = 8
"""So many are asked at once: each holds what it has read in memory."""
TURN_SECONDS = 1.0
"""So long is waited for an answer until Ctrl-C is looked for again."""
LOGOUT_SECONDS = 3.0
"""So long after Ctrl-C the others may take to log out."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked under a name, of a server. `ask` is called in a thread of its own."""

    name: str
    server: str
    ask: Callable[[], Answer]


@dataclass(frozen=True, slots=True)
class Told:
    """What became of a question: an answer, or what went wrong."""

    name: str
    server: str
    answer: Answer | None = None
    error: Exception | None = None


def ask_all(questions: Sequence[Question]) -> tuple[Told, ...]:
    """Ask all of them and return what came of each, in their order.

    Raises Interrupted on Ctrl-C, once the others have logged out or have taken too long to.
    """
    waiting: SimpleQueue[int] = SimpleQueue()
    for number in range(len(questions)):
        waiting.put(number)
    ended: SimpleQueue[tuple[int, Told]] = SimpleQueue()
    stopped = Event()

    def work() -> None:
        with compose.beside_others(stopped):
            while not stopped.is_set():
                try:
                    number = waiting.get_nowait()
                except Empty:
                    return
                ended.put((number, _told(questions[number])))

    # A thread that cannot be stopped keeps no command from ending.
    threads = [Thread(target=work, daemon=True) for _ in range(min(len(questions), MOST_AT_ONCE))]
    found: dict[int, Told] = {}
    try:
        for thread in threads:
            thread.start()
        while len(found) < len(questions):
            # A signal just before the wait does not end it: Python looks for it at the next turn.
            with suppress(Empty):
                number, told = ended.get(timeout=TURN_SECONDS)
                found[number] = told
    except KeyboardInterrupt:
        while not ended.empty():
            number, told = ended.get()
            found[number] = told
        stopped.set()
        deadline = time.monotonic() + LOGOUT_SECONDS
        for thread in threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))
        left = [one.name for number, one in enumerate(questions) if number not in found]
        raise Interrupted(
            "stopped before all were read", subject=", ".join(left), remedy="run the same command again"
        ) from None
    return tuple(found[number] for number in range(len(questions)))


def _told(question: Question) -> Told:
    try:
        return Told(question.name, question.server, question.ask())
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not hide what the others answer
        return Told(question.name, question.server, error=error)
