"""An HTTP server for metrics that ends every exchange: few clients at a time, each within a time limit."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

MOST_CLIENTS: Final = 16
REQUEST_SECONDS: Final = 10.0
"""So long a client may take for its request, and for each part of the answer that it does not fetch."""
_Address = Any
"""As `socketserver` has it: a pair for IPv4, four parts for IPv6."""


class _Handler(WSGIRequestHandler):
    """Reads one request within its time, and logs none."""

    timeout = REQUEST_SECONDS

    def handle(self) -> None:
        deadline = threading.Timer(REQUEST_SECONDS, self._end_reading)
        deadline.daemon = True
        deadline.start()
        try:
            with suppress(OSError):  # a client that has gone, or was too slow
                super().handle()
        finally:
            deadline.cancel()

    def _end_reading(self) -> None:
        """End a request that comes a byte now and then; an answer under way is not touched."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_RD)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's signature
        """Log nothing."""


class _Server(ThreadingMixIn, WSGIServer):
    """A thread for each client; one client more than may be served is closed at once."""

    daemon_threads = True

    def __init__(self, *arguments: Any) -> None:
        self._places = threading.BoundedSemaphore(MOST_CLIENTS)
        super().__init__(*arguments)

    def process_request(self, request: Any, client_address: _Address) -> None:
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: _Address) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: _Address) -> None:
        """Print nothing of a client that broke off."""


class _ServerV6(_Server):
    address_family = socket.AF_INET6


def make_server(address: str, port: int, app: WSGIApplication) -> WSGIServer:
    """Listen at an address; 0 lets the system choose the port. Raises OSError."""
    family = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
    server = (_ServerV6 if family is socket.AF_INET6 else _Server)((address, port), _Handler)
    server.set_app(app)
    return server
