"""How one exchange is held to its time and its bytes, whatever the other end does meanwhile.

Every step on its socket first asks what time is left: a byte now and then, a handshake or headers without an
end keep nobody waiting. Bytes are counted as they come from the network. Only the resolution of a name has
limits of its own, those of the system.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from urllib3.connection import HTTPSConnection
from urllib3.exceptions import ConnectTimeoutError, NameResolutionError, NewConnectionError
from urllib3.util.connection import create_connection

_HEADERS_BYTES = 1024 * 1024
"""What may come beside the body: the status line, headers, the sizes of chunks."""


class Flooded(OSError):
    """More bytes came than an answer may have."""


@dataclass(slots=True)
class Budget:
    """What is left of one exchange. `is_sent` says whether a byte of the request may have gone out."""

    now: Callable[[], float]
    deadline: float
    most_bytes: int
    received: int = 0
    is_sent: bool = False
    is_flooded: bool = field(default=False, init=False)

    def left(self) -> float:
        """Return how many seconds are left. Raises TimeoutError where none are."""
        seconds = self.deadline - self.now()
        if seconds <= 0:
            raise TimeoutError("the exchange took too long")
        return seconds

    def take(self, count: int) -> None:
        """Count bytes of an answer as they come. Raises Flooded where they are too many."""
        self.received += count
        if self.received > self.most_bytes + _HEADERS_BYTES:
            self.flood()

    def flood(self) -> None:
        """Raise Flooded, and remember why: libraries put errors of their own in its place."""
        self.is_flooded = True
        raise Flooded("the answer is too large")


_BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def spending(budget: Budget) -> Iterator[None]:
    """Hold every socket of this room that is used inside to a budget."""
    before = _BUDGET.set(budget)
    try:
        yield
    finally:
        _BUDGET.reset(before)


class BudgetSocket(ssl.SSLSocket):
    """A TLS socket that is held to the budget of the exchange that uses it."""

    def do_handshake(self, block: bool = False) -> None:  # noqa: FBT001, FBT002 - the library's signature
        """Shake hands within what is left."""
        self._hurry()
        super().do_handshake(block)

    def read(self, len: int = 1024, buffer: Any = None) -> Any:  # noqa: A002 - the library's name
        """Read within what is left, and count."""
        budget = self._hurry()
        found: Any = super().read(len, buffer)
        if budget is not None:
            budget.take(found if isinstance(found, int) else memoryview(found).nbytes)
        return found

    def send(self, data: Any, flags: int = 0) -> int:
        """Send within what is left."""
        budget = self._hurry()
        if budget is not None:
            budget.is_sent = True
        return super().send(data, flags)

    def _hurry(self) -> Budget | None:
        budget = _BUDGET.get()
        if budget is not None:
            self.settimeout(budget.left())
        return budget


class BudgetConnection(HTTPSConnection):
    """A connection whose addresses share what is left of the exchange."""

    def _new_conn(self) -> socket.socket:
        budget = _BUDGET.get()
        if budget is None:
            return super()._new_conn()
        try:
            found = socket.getaddrinfo(self._dns_host, self.port, type=socket.SOCK_STREAM)
        except (socket.gaierror, UnicodeError) as error:
            raise NameResolutionError(self.host, self, _as_gai(error)) from error
        addresses = list(dict.fromkeys(str(address[0]) for *_, address in found))
        problem: OSError = OSError("the name has no address")
        for number, address in enumerate(addresses):
            try:
                share = budget.left() / (len(addresses) - number)
                return create_connection((address, self.port), share, socket_options=self.socket_options)
            except OSError as error:
                problem = error
        if isinstance(problem, TimeoutError):
            raise ConnectTimeoutError(self, f"Connection to {self.host} timed out.") from problem
        raise NewConnectionError(self, f"Failed to establish a new connection: {problem}") from problem


def _as_gai(error: socket.gaierror | UnicodeError) -> socket.gaierror:
    return error if isinstance(error, socket.gaierror) else socket.gaierror("it is no name of a host")
