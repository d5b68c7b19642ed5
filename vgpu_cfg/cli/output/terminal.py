"""How a question is put at a terminal, so that no Ctrl-C at it is lost."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from vgpu_cfg.cli.notice import call_for_an_answer
from vgpu_cfg.model.wording import shown

_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on standard error; an empty line, the end of input and Ctrl-C are no.

    A word that is neither is asked about again. Main thread only.
    """
    call_for_an_answer(question)
    try:
        with _woken_by_signals() as woken:
            while True:
                sys.stderr.write(f"{shown(question)} [y/N]: ")
                sys.stderr.flush()
                answer = _ANSWERS.get(_read_line(woken).strip().lower())
                if answer is not None:
                    return answer
                sys.stderr.write("Error: invalid input\n")
    except KeyboardInterrupt:
        return False


def _read_line(woken: int) -> str:
    """Return a line of standard input, "" at its end.

    Python acts on a signal between two of its own steps. One that comes after the last of them and before the
    read would be noted, and acted on when the read has ended: so it is only begun once there is a line.
    """
    if sys.platform != "win32":  # there select knows sockets alone
        while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
            os.read(woken, 64)
    return sys.stdin.readline()


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """Yield a file descriptor that has something to read as soon as a signal has come."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    try:
        before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        try:
            yield woken
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(woken)
        os.close(wakes)
