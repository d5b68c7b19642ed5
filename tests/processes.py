"""Processes that tests start, and how none outlives its test."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def killed_at_the_end(process: subprocess.Popen[str], seconds: float | None = None) -> Iterator[None]:
    """Kill a process when the block is left, however; and within it once these seconds are over.

    Whoever reads what the process writes then comes to its end.
    """
    timer = threading.Timer(seconds, process.kill) if seconds is not None else None
    try:
        if timer is not None:
            timer.start()
        yield
    finally:
        if timer is not None:
            timer.cancel()
            timer.join(timeout=120)
        process.kill()
