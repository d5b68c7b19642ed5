"""List every request in the file of calls: when, to which server, what, and how it was answered.

A request is named by its SOAP method and object, or by its REST path. No content is written: arguments may
hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgpu_cfg.ports import Transport
from vgpu_cfg.shells.call_log import listed
from vgpu_cfg.vsphere.wire.called import called

_OBJECT = re.compile(rb"<_this [^>]*>(?P<moid>[^<]+)<")


@dataclass(frozen=True, slots=True)
class Logged:
    """A wire whose requests are listed in a file."""

    transport: Transport
    server: str
    file: Path

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        with listed(self.file, {"to": self.server, **_named(method, path, body)}) as line:
            status, answered, content = self.transport.exchange(method, path, headers, body)
            line |= {"status": status, "received": len(content)}
            return status, answered, content

    def close(self) -> None:
        self.transport.close()


def _named(method: str, path: str, body: bytes) -> dict[str, object]:
    name = called(body)
    if not name:
        return {"call": f"{method} {path.partition('?')[0]}", "sent": len(body)}
    on = _OBJECT.search(body)
    return {"call": name, "on": on["moid"].decode() if on is not None else "", "sent": len(body)}
