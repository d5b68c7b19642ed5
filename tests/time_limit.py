"""What happens to a test that is out of time: what it started is killed, and it fails.

pytest-timeout keeps the time, by a signal. That alone is too little: hypothesis takes its exception for a
finding and runs the example again; a `with` that waits for a process waits on; and when a test has failed,
nothing limits how long its fixtures take to leave.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType

import pytest
from pytest_timeout import Settings

LEAVING_SECONDS = 120.0
"""The time that fixtures have to leave."""
AGAIN_SECONDS = 30.0
"""A test that goes on after its time is stopped again each time these are over."""

_BEGUN_WITH = pytest.StashKey[frozenset[int]]()
"""The processes that stood when the test, or its part, began."""
_KEPT = pytest.StashKey[Settings]()
"""How the time of the test is kept; absent where nobody keeps it, as with `--timeout 0`."""


class OutOfTimeError(BaseException):
    """The time of a test is over. No Exception: nobody who handles those shall handle it."""


@pytest.hookimpl(wrapper=True)
def pytest_timeout_set_timer(item: pytest.Item, settings: Settings) -> Iterator[None]:
    """Stop the test as pytest-timeout would, and what it started with it; then again, until it ends."""
    done = yield
    item.stash[_KEPT] = settings
    if _BEGUN_WITH not in item.stash:
        item.stash[_BEGUN_WITH] = children()
    if settings.method == "signal":
        fail = signal.getsignal(signal.SIGALRM)

        def stop(number: int, frame: FrameType | None) -> None:
            try:
                assert callable(fail)
                fail(number, frame)
            except pytest.fail.Exception as failed:
                begun_with = item.stash[_BEGUN_WITH]
                kill(children() - begun_with)
                raise OutOfTimeError(str(failed)) from None

        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, AGAIN_SECONDS)
    return done


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Leave what fixtures have started to them: they end it, and it may be there for other tests too."""
    item.stash[_BEGUN_WITH] = children()
    return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Give fixtures a time of their own to leave: a failure has cancelled that of the test."""
    if _KEPT in item.stash:
        settings = item.stash[_KEPT]._replace(timeout=LEAVING_SECONDS)
        item.ihook.pytest_timeout_set_timer(item=item, settings=settings)
    return (yield)


def children() -> frozenset[int]:
    """List this process's children and theirs; empty where the system does not tell."""
    found: set[int] = set()
    unread = [os.getpid()]
    while unread:
        tasks = f"/proc/{unread.pop()}/task"
        # A process may end while it is looked at.
        with suppress(OSError):
            for task in os.listdir(tasks):  # noqa: PTH208 - a Path takes four times as long
                with suppress(OSError), open(f"{tasks}/{task}/children", "rb") as file:  # noqa: PTH123 - the same
                    unread += [int(word) for word in file.read().split()]
        found |= set(unread)
    return frozenset(found)


def kill(processes: frozenset[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
