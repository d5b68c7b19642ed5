"""A vCenter on loopback that turns hostile: real TLS, real bytes, and answers that are no answers.

It is the lab until a request comes that an attack is ordered for; then the attack's bytes go out until the
client hangs up, and are counted. No attack ends by itself.
"""

from __future__ import annotations

import itertools
import re
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.soap.server import LabServer, _Handler

Attack = Callable[[], Iterator[bytes]]

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/xml\r\n"
PIECE = b"x" * 65536
_METHOD = re.compile(rb"Body><([A-Za-z_]+)")


def drip() -> Iterator[bytes]:
    """A body that comes a byte at a time."""
    yield OK + b"Content-Length: 1000000000\r\n\r\n"
    yield from itertools.repeat(b"x")


def flood() -> Iterator[bytes]:
    """A body as long as it says it is, which is a terabyte."""
    yield OK + b"Content-Length: 1000000000000\r\n\r\n"
    yield from itertools.repeat(PIECE)


def endless_headers() -> Iterator[bytes]:
    """Headers, and no body."""
    yield OK
    for number in itertools.count():
        yield b"X-%d: y\r\n" % number


def endless_header() -> Iterator[bytes]:
    """One header, whose line does not end."""
    yield OK + b"X-Long: "
    yield from itertools.repeat(PIECE)


def endless_continue() -> Iterator[bytes]:
    """The word to go on, again and again, and no answer."""
    yield from itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n")


def gzip_bomb() -> Iterator[bytes]:
    """Zeros, packed: a thousandth of what they become."""
    yield OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    packer = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    zeros = bytes(4 * 1024 * 1024)
    while True:
        if packed := packer.compress(zeros):
            yield b"%x\r\n%b\r\n" % (len(packed), packed)


def empty_gzips() -> Iterator[bytes]:
    """Archives of nothing, one after the other."""
    yield OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    nothing = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS).flush() * 1000
    yield from itertools.repeat(b"%x\r\n%b\r\n" % (len(nothing), nothing))


def endless_chunks() -> Iterator[bytes]:
    """Chunks, and never the last one."""
    yield OK + b"Transfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))


def huge_chunk() -> Iterator[bytes]:
    """One chunk of an exbibyte."""
    yield OK + b"Transfer-Encoding: chunked\r\n\r\n1000000000000000\r\n"
    yield from itertools.repeat(PIECE)


def endless_chunk_size() -> Iterator[bytes]:
    """The size of a chunk, whose digits do not end."""
    yield OK + b"Transfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"1" * 65536)


def endless_trailer() -> Iterator[bytes]:
    """The last chunk, and headers behind it."""
    yield OK + b"Transfer-Encoding: chunked\r\n\r\n0\r\n"
    yield from itertools.repeat(b"X-Behind: y\r\n" * 1000)


def silence() -> Iterator[bytes]:
    """Nothing at all."""
    threading.Event().wait(60.0)
    yield b""


ATTACKS: tuple[Attack, ...] = (
    drip,
    flood,
    endless_headers,
    endless_header,
    endless_continue,
    gzip_bomb,
    empty_gzips,
    endless_chunks,
    huge_chunk,
    endless_chunk_size,
    endless_trailer,
)


class HostileVCenter(LabServer):
    """A lab behind HTTPS that answers the `nth` request (0: each) of a method by an attack.

    The method "GET" is any that is no call. `sent` counts the bytes of attacks, and `begun` the attacks.
    """

    def __init__(self, lab: Simulation, attack: Attack, *, method: str, nth: int = 0) -> None:
        super().__init__(lab)
        self._http.RequestHandlerClass = _HostileHandler
        self.attack = attack
        self.method = method
        self.nth = nth
        self.seen = 0
        self.begun = 0
        self.sent = 0

    def is_due(self, method: str) -> bool:
        """Count a request, and tell whether it is to be attacked."""
        if method != self.method:
            return False
        self.seen += 1
        return self.nth in (0, self.seen)


class _HostileHandler(_Handler):
    def _answer(self, method: str, body: bytes) -> None:
        owner: Any = self.server.owner
        found = _METHOD.search(body)
        if not owner.is_due(method if found is None else found[1].decode()):
            super()._answer(method, body)
            return
        owner.begun += 1
        self.close_connection = True
        for piece in owner.attack():
            self.wfile.write(piece)
            owner.sent += len(piece)
