"""A proxy before a vSphere server that counts requests and bytes, and answers later by so much.

It stands for the way to a far vCenter: each request waits once, as long as a round trip takes there.
"""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vgpu_cfg.lab.soap.server import Certificate, make_certificate

_OF_ONE_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "host"})


@dataclass(slots=True)
class Passed:
    """What went through since the counts were last taken."""

    requests: int = 0
    sent: int = 0
    answered: int = 0


@dataclass
class CountingProxy:
    """A running proxy; `delay_seconds` may be changed. Each connection has one to the server.

    What is to be passed on goes through `passing`, by its body, as long as that has its block open.
    """

    address: str
    certificate: Certificate
    delay_seconds: float = 0
    passed: Passed = field(default_factory=Passed)
    lock: threading.Lock = field(default_factory=threading.Lock)
    passing: Callable[[bytes], AbstractContextManager[object]] = nullcontext
    connections: int = 0

    def taken(self) -> Passed:
        """Return the counts, and begin anew."""
        with self.lock:
            found, self.passed = self.passed, Passed()
        return found

    def count(self, sent: int, answered: int) -> None:
        with self.lock:
            self.passed.requests += 1
            self.passed.sent += sent
            self.passed.answered += answered


@contextmanager
def proxy_to(upstream: str) -> Iterator[CountingProxy]:
    """Run a proxy to HOST:PORT until the block ends. The server's certificate is not looked at."""
    certificate = make_certificate()
    never = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            with running.lock:
                running.connections += 1
            # The server is one that the bench has started itself.
            context = ssl._create_unverified_context()  # noqa: S323  # as said
            self.upstream = http.client.HTTPSConnection(upstream, timeout=600, context=context)

        def finish(self) -> None:
            self.upstream.close()
            super().finish()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name it has there
            del format, args

        def pass_on(self) -> None:
            body = self.whole_body()
            headers = {name: value for name, value in self.headers.items() if name.lower() not in _OF_ONE_HOP}
            never.wait(running.delay_seconds)
            with running.passing(body):
                self.upstream.request(self.command, self.path, body, headers)
                answer = self.upstream.getresponse()
                content = answer.read()
            # Before the answer goes out: who has it may take the counts.
            running.count(len(body), len(content))
            self.send_response_only(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in _OF_ONE_HOP:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def whole_body(self) -> bytes:
            """Read a body by its length or, as govc sends it, in chunks."""
            if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length", 0)))
            chunks = []
            while size := int(self.rfile.readline().split(b";")[0], 16):
                chunks.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(chunks)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = pass_on  # noqa: N815  # named by http.server

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 64

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that hangs up is none of the bench's business."""

    server = Server(("127.0.0.1", 0), Handler)
    server.socket = certificate.server_context().wrap_socket(server.socket, server_side=True)
    running = CountingProxy(f"127.0.0.1:{server.server_port}", certificate)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=30)
