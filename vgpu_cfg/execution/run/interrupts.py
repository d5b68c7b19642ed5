"""The signals that end a command: Ctrl-C, SIGTERM and SIGHUP, outside a run, in it and at a question.

In a run the first one begins nothing more and the second one ends it at once. Elsewhere one is enough.
SIGHUP counts once: the kernel and the shell both send it, and no person insists by it. A signal that is
ignored at the start stays ignored: `nohup` ignores SIGHUP, a shell's `&` SIGINT.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

ENDING = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
"""CI and systemd send SIGTERM, a terminal that closes and an ssh that drops send SIGHUP."""


@contextmanager
def stop_on_interrupt(on_first: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Catch the signals for the length of a run and yield `stop`, which says whether one came.

    The first one only sets the flag and calls `on_first`: running tasks are waited for.
    The second raises KeyboardInterrupt wherever the program is. Main thread only.
    """
    interrupted = False

    def note(signum: int, frame: FrameType | None) -> None:
        nonlocal interrupted
        if interrupted:
            _interrupt(signum, frame)
        interrupted = True
        _see_hang_up(signum)
        on_first()

    with _heard_by(note):
        yield lambda: interrupted


@contextmanager
def one_is_enough() -> Iterator[None]:
    """Let the first signal raise KeyboardInterrupt for the length of a block: locks are given back then.

    In another thread than the main one nothing changes: signals do not reach it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _heard_by(_interrupt):
        yield


@contextmanager
def _heard_by(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    heeded = [number for number in ENDING if signal.getsignal(number) not in (signal.SIG_IGN, None)]
    before = {number: signal.signal(number, handler) for number in heeded}
    try:
        yield
    finally:
        for number, known in before.items():
            is_outermost = known in (signal.SIG_DFL, signal.default_int_handler)
            if is_outermost or signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, known)


def _interrupt(signum: int, frame: FrameType | None) -> None:
    _see_hang_up(signum)
    signal.default_int_handler(signum, frame)


def _see_hang_up(signum: int) -> None:
    """After a SIGHUP hear no other, and lead output nowhere whose terminal is closed: writing there fails."""
    if sys.platform == "win32" or signum != signal.SIGHUP:
        return
    signal.signal(signum, signal.SIG_IGN)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            look = select.poll()
            look.register(stream.fileno(), 0)
            if any(found & select.POLLHUP for _, found in look.poll(0)):
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, stream.fileno())
                os.close(nowhere)
