"""A journal as messages of syslog (RFC 5424): the run's entries and its steps, and nothing that is long.

Over TCP a message ends with a line break (RFC 6587, 3.4.2). A text that is too long for one message is cut
off.
"""

from __future__ import annotations

import logging
import os
import socket
from datetime import UTC, datetime
from logging.handlers import SysLogHandler
from typing import Literal

from vgpu_cfg.execution.records.copies import ENTRIES
from vgpu_cfg.execution.records.run_record import this_machine

LONGEST_BYTES = 2048
"""The size that a receiver should accept at least (RFC 5424, 6.1)."""
KINDS = ENTRIES | {"event"}
"""The lines of a journal that are sent."""
_SECONDS = 5.0


class SyslogSink:
    """A syslog server, or the machine's own where `way` is "unix" and `host` a path."""

    def __init__(self, way: Literal["udp", "tcp", "unix"], host: str, port: int) -> None:
        self._way = way
        self._address: str | tuple[str, int] = host if way == "unix" else (host, port)
        self._handler: _Handler | None = None

    @property
    def place(self) -> str:
        """The server."""
        address = self._address
        where = f"unix:{address}" if isinstance(address, str) else f"{self._way}://{address[0]}:{address[1]}"
        return f"syslog at {where}"

    def open(self) -> None:
        """Connect."""
        kind = socket.SOCK_STREAM if self._way == "tcp" else socket.SOCK_DGRAM
        if isinstance(self._address, str):
            os.stat(self._address)  # noqa: PTH116 - a handler begins without the socket, and says nothing
        self._handler = _Handler(self._address, socktype=kind)
        self._handler.append_nul = False
        self._handler.socket.settimeout(_SECONDS)
        self._handler.setFormatter(_Formatter("\n" if self._way == "tcp" else ""))

    def write(self, kind: str, line: str) -> None:
        """Send a line, if it is one of `KINDS`."""
        if self._handler is not None and kind in KINDS:
            record = logging.makeLogRecord({"msg": line, "kind": kind, "levelname": "INFO"})
            self._handler.emit(record)

    def close(self) -> None:
        """Let go of the socket."""
        if self._handler is not None:
            self._handler.close()
            self._handler = None


class _Handler(SysLogHandler):
    """The standard library's handler, which raises its errors."""

    socket: socket.socket

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002 - the library's name
        """Raise the error that the library is handling when it calls this."""
        raise  # noqa: PLE0704 - there is an error being handled


class _Formatter(logging.Formatter):
    """A record as RFC 5424 has it, after the priority that the handler writes."""

    def __init__(self, ending: str) -> None:
        super().__init__()
        self._ending = ending

    def format(self, record: logging.LogRecord) -> str:
        """Write version, time, machine, program, process, the message's kind, no other data, and the text."""
        moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        kind = getattr(record, "kind", "-")
        head = f"1 {moment} {_name(this_machine())} vgpu-cfg {os.getpid()} {kind} - "
        text = f"{head}{record.msg}".encode()[: LONGEST_BYTES - len("<134>")]
        return text.decode(errors="ignore") + self._ending


def _name(machine: str) -> str:
    """Return a machine's name as a header may hold it: printed ASCII without spaces."""
    return "".join(sign for sign in machine if "!" <= sign <= "~")[:255] or "-"
