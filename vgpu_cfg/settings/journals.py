"""The targets of journals in addition to this machine's state folder: a shared folder, a syslog server."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.settings.connection import read_config
from vgpu_cfg.settings.environment import config_file
from vgpu_cfg.settings.variables import read_variables

_PORT = 514
"""That of syslog over UDP (RFC 5426); TCP has none of its own, and servers listen on the same."""
_ADDRESS = re.compile(r"(udp|tcp)://(\[[0-9a-fA-F:.]+\]|[^\s:/\[\]]+)(?::(\d{1,5}))?/?")
_SOCKET = re.compile(r"unix:(/.+)")


@dataclass(frozen=True, slots=True)
class SyslogTarget:
    """A syslog server. `host` is the path of its socket where the way is "unix"."""

    way: Literal["udp", "tcp", "unix"]
    host: str
    port: int = _PORT

    def __str__(self) -> str:
        return f"unix:{self.host}" if self.way == "unix" else f"{self.way}://{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """The additional targets of a run's journal; None for no target."""

    folder: Path | None = None
    syslog: SyslogTarget | None = None


class _Variables(Frozen):
    """`VGPU_CFG_JOURNAL_FOLDER` and `VGPU_CFG_SYSLOG`."""

    journal_folder: Path | None = None
    syslog: str | None = None


def journal_settings() -> JournalSettings:
    """Read the variables, then the config file. Raises DocumentError for what cannot be used."""
    variables = read_variables(_Variables, "VGPU_CFG_")
    config, document = read_config()
    folder = variables.journal_folder or config.journal_folder
    text = variables.syslog or config.syslog
    if text is None:
        return JournalSettings(_expanded(folder))
    target = _target(text)
    if target is not None:
        return JournalSettings(_expanded(folder), target)
    message, hint = (
        f"{text!r} is not a valid syslog address",
        "use udp://HOST:514, tcp://HOST:514 or unix:/dev/log",
    )
    if variables.syslog or document is None:
        raise DocumentError([DocumentFault("VGPU_CFG_SYSLOG", 1, 1, message, hint)])
    raise DocumentError([document.fault(("syslog",), message, hint)], remedy=f"correct {config_file()}")


def _target(text: str) -> SyslogTarget | None:
    if (found := _SOCKET.fullmatch(text)) is not None:
        return SyslogTarget("unix", found[1])
    if (found := _ADDRESS.fullmatch(text)) is None:
        return None
    port = int(found[3] or _PORT)
    way: Literal["udp", "tcp"] = "udp" if found[1] == "udp" else "tcp"
    return SyslogTarget(way, found[2].strip("[]"), port) if 0 < port < 65536 else None


def _expanded(folder: Path | None) -> Path | None:
    """Return a folder with `~` written out. Raises DocumentError for `~` of a user without a home."""
    try:
        return None if folder is None else folder.expanduser()
    except RuntimeError as error:
        fault = DocumentFault(
            "VGPU_CFG_JOURNAL_FOLDER", 1, 1, f"cannot determine the home folder for {str(folder)!r}"
        )
        raise DocumentError([fault], remedy="use the full path, or unset it") from error
