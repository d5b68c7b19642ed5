"""What Ctrl-C and SIGTERM mean during a run: once, begin nothing more; twice, leave at once.

At a question in between, one is enough.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_on_interrupt(on_first: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Catch SIGINT and SIGTERM for the length of a run and yield `stop`, which says whether one came.

    The first one only sets the flag and calls `on_first`: running tasks are waited for.
    The second raises KeyboardInterrupt wherever the program stands. Main thread only.
    """
    interrupted = False

    def note(signum: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            signal.default_int_handler(signum, frame)
        interrupted = True
        on_first()

    # A job that CI or systemd ends gets SIGTERM; it shall not leave without a report either.
    before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: interrupted
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def one_is_enough() -> Iterator[None]:
    """Let a first SIGINT or SIGTERM raise KeyboardInterrupt for the length of a question.

    Main thread only.
    """
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
