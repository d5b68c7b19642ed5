"""Wires around another one: the one lists every request in a file, the other carries only those that read.

Both look at the bytes, not at who made them. In the file a request is named by its SOAP method and object, or
by its REST path. No content is written: arguments may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.ports import Transport
from vgpu_cfg.shells.channel import listed
from vgpu_cfg.vsphere.wire.rest import SESSION_PATH
from vgpu_cfg.vsphere.wire.stub import is_read

_METHOD = re.compile(rb"<(?:\w+:)?Body>\s*<(?:\w+:)?(\w+)[\s>/]")
_COMMAND = re.compile(rb"<(?:\w+:)?method[^>]*>\s*(vim\.EsxCLI\.[\w.]+)\s*<")


def called(body: bytes) -> str:
    """Return the method, or the command of esxcli that it runs on a host (`vim.EsxCLI.…`); "" if not SOAP."""
    method = _METHOD.search(body)
    if method is None:
        return ""
    command = _COMMAND.search(body) if method[1] == b"ExecuteSoap" else None
    return (command or method)[1].decode()


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


_ACTION = re.compile(r"~action=(?:list|find)[\w-]*$")
_ESXCLI = "vim.EsxCLI."
_WRITES = frozenset({"SetField", "ReconfigureAlarm", "RemoveAlarm"})
"""Methods that may be sent twice, and change something all the same."""
_OF_THE_SESSION = frozenset(
    {
        *("Logout", "CancelWaitForUpdates", "ContinueRetrievePropertiesEx"),
        *("CreateCollectorForEvents", "CreateCollectorForTasks", "DestroyCollector"),
        *("ReadNextEvents", "ReadNextTasks", "ReadPreviousEvents", "ReadPreviousTasks"),
        *("ResetCollector", "RewindCollector", "SetCollectorPageSize"),
    }
)


@dataclass(frozen=True, slots=True)
class ReadingOnly:
    """Passes on what reads; anything else raises NotPermitted, and is not sent.

    A SOAP request is let through if its method reads, or changes only the session itself; one through the
    esxcli of a host if its command lists or gets; REST if it is a GET, a question by POST, or the session's
    own login and logout.
    """

    transport: Transport

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        if not _reads(method, path, body):
            name = called(body) or f"{method} {path}"
            message = f"a read-only command tried to send {name}"
            raise NotPermitted(message, subject="vgpu-cfg", remedy="report this bug; nothing was sent")
        return self.transport.exchange(method, path, headers, body)

    def close(self) -> None:
        self.transport.close()


def _reads(method: str, path: str, body: bytes) -> bool:
    name = called(body)
    if name.startswith(_ESXCLI):
        return name.endswith((".list", ".get"))
    if name:
        return (is_read(name) and name not in _WRITES) or name in _OF_THE_SESSION
    is_login = path.partition("?")[0].endswith(SESSION_PATH) and method in ("POST", "DELETE")
    return method == "GET" or is_login or (method == "POST" and _ACTION.search(path) is not None)
