"""A wire that carries no request that changes anything: what only reads is handed this one.

It looks at the bytes, not at who made them. A SOAP request is let through if its method reads, or changes
only the session itself; one through a host's esxcli if its command lists or gets; REST if it is a GET, a
question by POST, or the session's own login and logout.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire.called import called
from vgpu_cfg.vsphere.wire.rest import SESSION_PATH
from vgpu_cfg.vsphere.wire.stub import is_read

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
    """Passes on what reads; anything else raises NotPermitted, and is not sent."""

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
