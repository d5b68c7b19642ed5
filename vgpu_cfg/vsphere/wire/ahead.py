"""How one exchange is made beside other work: in a thread of its own that nobody need wait for at the end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Generic, TypeVar

Result = TypeVar("Result")


class Ahead(Generic[Result]):
    """Runs `work` at once, with the context of whoever starts it; `result` returns or raises what it did.

    The thread is a daemon: a program that is interrupted ends without it.
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
        self._done.wait()

    def result(self) -> Result:
        """Wait for the end; return the result, or raise what went wrong."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._result.pop()

    def _run(self) -> None:
        try:
            self._result.append(self._work())
        except BaseException as error:  # noqa: BLE001 - raised again by who asks for the result
            self._error = error
        finally:
            self._done.set()
