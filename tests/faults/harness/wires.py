"""Where a process of the harness finds the lab: the ports behind its names, and the line that controls it.

A run names vCenter and hosts as always; only here is known on which port of the loopback each one listens. So
a lab that is forked, and listens elsewhere, is the same vCenter to whoever asks for it.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VCENTER = "vcenter.lab"
LOOPBACK = "127.0.0.1"
"""Names lead there; whoever takes the address for the name's, and asks for the port anew, means vCenter."""
HTTPS_PORT, SSH_PORT = 443, 22
PATIENCE_SECONDS = 240.0


@dataclass(frozen=True, slots=True)
class Place:
    """Where one lab is: the port of its HTTPS, those of its hosts' SSH, and the socket that controls it."""

    control: str
    https: int = 0
    ssh: Mapping[str, int] = field(default_factory=dict)

    @property
    def ports(self) -> dict[tuple[str, int], int]:
        """The ports by name and by the port that is asked for."""
        hosts = {(name, SSH_PORT): port for name, port in self.ssh.items()}
        return {(VCENTER, HTTPS_PORT): self.https, **hosts}

    def ask(self, do: str, **more: Any) -> Any:
        """Ask the lab's process for something, and wait for its answer."""
        return ask(self.control, do, **more)

    def fork(self) -> Place:
        """Let the lab split in two; return where the other one is. It ends by `end`."""
        return Place(**self.ask("fork"))

    def end(self) -> None:
        """Let the lab's process end."""
        self.ask("end")

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def ask(path: str, do: str, **more: Any) -> Any:
    """Send one line to a socket and return what the answer holds; None where it has none."""
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(PATIENCE_SECONDS)
        line.connect(path)
        tell(line, {"do": do, **more})
        return hear(line)


def tell(line: socket.socket, message: Any) -> None:
    """Send one message."""
    line.sendall(json.dumps(message).encode() + b"\n")


def hear(line: socket.socket) -> Any:
    """Read one message; None where the other side has ended."""
    read = bytearray()
    while not read.endswith(b"\n"):
        chunk = line.recv(1 << 16)
        if not chunk:
            return None
        read += chunk
    return json.loads(read)


def listening(path: Path) -> socket.socket:
    """Return a socket that listens there."""
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    made.listen(64)
    return made


_PORTS: dict[tuple[str, int], int] = {}
_resolve = socket.getaddrinfo


def lead_to(place: Place) -> None:
    """Let this process find a lab behind the names of its vCenter and hosts, and nothing else."""
    _PORTS.clear()
    _PORTS.update(place.ports)
    socket.getaddrinfo = _found  # type: ignore[assignment]  # as much of it as urllib3 and paramiko call


def _found(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
    name = VCENTER if (host, port) == (LOOPBACK, HTTPS_PORT) else host
    if (name, port) not in _PORTS:
        raise socket.gaierror(socket.EAI_NONAME, f"{host}:{port} is none of the lab's")
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (LOOPBACK, _PORTS[name, port]))]
