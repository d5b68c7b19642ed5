"""The end of a process that no signal stops: an hour after the time limit of a test it prints its threads.

pytest's own `faulthandler_timeout` starts a thread for each test and waits until it has ended: two changes of
thread, which on busy cores take longer than most tests.
"""

from __future__ import annotations

import faulthandler
import os
import time

import pytest

LIMIT_SECONDS = 3600
"""So long after a test's own time limit, 0 for the default one."""
AGAIN_SECONDS = 60
"""Tests that begin within this time share one limit."""

_STDERR = pytest.StashKey[int]()
_BEGUN = pytest.StashKey[float]()
"""When the limit began."""


def pytest_configure(config: pytest.Config) -> None:
    # Nothing is captured yet.
    config.stash[_STDERR] = os.dup(2)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    stash, now, own = item.config.stash, time.monotonic(), own_limit(item)
    if own or now - stash.get(_BEGUN, -AGAIN_SECONDS) >= AGAIN_SECONDS:
        stash[_BEGUN] = now
        faulthandler.dump_traceback_later(own + LIMIT_SECONDS, exit=True, file=stash[_STDERR])


def own_limit(item: pytest.Item) -> int:
    """Return the time limit that a test's mark sets, 0 for the default one."""
    mark = item.get_closest_marker("timeout")
    return int(mark.args[0]) if mark is not None else 0


def pytest_unconfigure(config: pytest.Config) -> None:
    faulthandler.cancel_dump_traceback_later()
    os.close(config.stash[_STDERR])
