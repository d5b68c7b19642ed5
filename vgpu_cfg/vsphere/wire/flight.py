"""Parallel exchanges: a page ahead of the reader, and a few questions together.

Of several questions one is worked on at a time: its thread holds the turn, and releases it only while a
request and its answer travel. So nothing here or in pyvmomi is used by two threads at once, and the changes
that one question makes to a session (its cookie, its counts, a new login) are there for the next one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar, copy_context
from typing import Generic, TypeVar

from vgpu_cfg.errors import Unreachable

Result = TypeVar("Result")
_LISTENS_SECONDS = 0.5
"""So often who waits looks for Ctrl-C, which does not wake a wait on Windows, nor one that has just begun."""


class _CalledOff(BaseException):
    """The answer is no longer awaited."""


class _Flight:
    """Questions that are asked together. All but `is_over` is only touched by who holds `turn`."""

    def __init__(self) -> None:
        self.turn = threading.Condition(threading.Lock())
        self.travelling = 0
        """How many requests are on their way, or have an answer that was not yet taken."""
        self.keepers = 0
        """For how many reasons who holds the turn keeps it while its request travels."""
        self.is_over = False

    def see_it_goes_on(self) -> None:
        if self.is_over:
            raise _CalledOff

    @contextmanager
    def left_to_others(self) -> Iterator[None]:
        """Let others work meanwhile, whatever they do."""
        self.turn.release()
        try:
            yield
        finally:
            self.turn.acquire()
            self.see_it_goes_on()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Let others work while a request travels, unless the turn is kept.

        If the connection fails while others are on their way, the server may accept no more of them: from
        then on one request is sent at a time. Those that are on their way are waited for first.
        """
        if self.keepers:
            yield
            self.see_it_goes_on()
            return
        self.travelling += 1
        is_lost = False
        try:
            with self.left_to_others():
                yield
        except Unreachable:
            is_lost = True
            raise
        finally:
            self.travelling -= 1
            self.turn.notify_all()
            if is_lost and self.travelling:
                self.keepers += 1
                self.turn.wait_for(lambda: not self.travelling)
                self.see_it_goes_on()


_FLIGHT: ContextVar[_Flight | None] = ContextVar("flight", default=None)
"""The questions asked together with the current one; None if it is asked alone."""


class Ahead(Generic[Result]):
    """Runs `work` at once, with the context of its caller; `result` returns or raises its outcome.

    The thread is a daemon: a program that is interrupted ends without it. Together with other questions it
    works in turn with them.
    """

    def __init__(self, work: Callable[[], Result]) -> None:
        self._work = work
        self._done = threading.Event()
        self._result: list[Result] = []
        self._error: BaseException | None = None
        context = copy_context()
        threading.Thread(target=lambda: context.run(self._run), daemon=True).start()

    def wait(self) -> None:
        """Wait for the end, whatever it is."""
        flight = _FLIGHT.get()
        with nullcontext() if flight is None else flight.left_to_others():
            while not self._done.wait(_LISTENS_SECONDS):
                pass

    def result(self) -> Result:
        """Wait for the end; return the result, or raise what went wrong."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._result.pop()

    def _run(self) -> None:
        flight = _FLIGHT.get()
        try:
            with nullcontext() if flight is None else flight.turn:
                self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the result
            self._error = error
        finally:
            self._done.set()


def together(calls: Sequence[Callable[[], Result]], most: int) -> list[Result]:
    """Return what calls return, in their order, with so many of their requests on their way at once.

    They may only read, and none may need what another has found. The first error, in their order, is raised
    once those before it have ended; later ones may not have been asked. With one at a time there are no
    threads. An interruption ends it at once.
    """
    if most < 2 or len(calls) < 2 or _FLIGHT.get() is not None:
        return [call() for call in calls]
    flight = _Flight()
    left = iter(enumerate(calls))
    found: dict[int, Result] = {}
    errors: dict[int, Exception] = {}

    def work() -> None:
        _FLIGHT.set(flight)
        with flight.turn:
            while not errors and (numbered := next(left, None)) is not None:
                number, call = numbered
                try:
                    found[number] = call()
                except Exception as error:  # noqa: BLE001 - raised again below
                    errors[number] = error

    try:
        for one in [Ahead(work) for _ in range(min(most, len(calls)))]:
            one.result()
    except BaseException:
        flight.is_over = True
        raise
    if errors:
        raise errors[min(errors)]
    return [found[number] for number in range(len(calls))]


@contextmanager
def travelling() -> Iterator[None]:
    """Let other questions be worked on while a request and its answer travel inside."""
    flight = _FLIGHT.get()
    if flight is None:
        yield
        return
    with flight.let_go():
        yield


@contextmanager
def alone() -> Iterator[None]:
    """Let no other question be worked on inside, not even while a request travels."""
    flight = _FLIGHT.get()
    if flight is None:
        yield
        return
    flight.keepers += 1
    try:
        yield
    finally:
        flight.keepers -= 1
