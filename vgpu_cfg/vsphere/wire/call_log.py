"""A file with every request that leaves the program: when, to which server, what, and how it was answered.

A request is named by its SOAP method and object, or by its REST path. No content is written: arguments may
hold secrets.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic

from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire.called import called

_OBJECT = re.compile(rb"<_this [^>]*>(?P<moid>[^<]+)<")


@dataclass(frozen=True, slots=True)
class Logged:
    """A wire whose requests are written to a file, a line of JSON each, once they are answered or lost.

    Raises OSError if the file cannot be written: a request that would not be listed is not sent.
    """

    transport: Transport
    server: str
    file: Path

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        began, started = datetime.now(UTC), monotonic()
        line = {
            "at": began.isoformat(timespec="milliseconds"),
            "to": self.server,
            **_named(method, path, body),
        }
        descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            status, answered, content = self.transport.exchange(method, path, headers, body)
            line |= {"status": status, "received": len(content)}
            return status, answered, content
        except BaseException as error:
            line["lost"] = type(error).__name__
            raise
        finally:
            line["seconds"] = round(monotonic() - started, 3)
            os.write(descriptor, (json.dumps(line) + "\n").encode())
            os.close(descriptor)

    def close(self) -> None:
        self.transport.close()


def _named(method: str, path: str, body: bytes) -> dict[str, object]:
    name = called(body)
    if not name:
        return {"call": f"{method} {path.partition('?')[0]}", "sent": len(body)}
    on = _OBJECT.search(body)
    return {"call": name, "on": on["moid"].decode() if on is not None else "", "sent": len(body)}
