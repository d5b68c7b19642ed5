"""An SSH server on the loopback that runs what it is given in a real POSIX shell, or fails as told."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field

import paramiko
from paramiko.common import AUTH_FAILED, AUTH_SUCCESSFUL, OPEN_SUCCEEDED
from paramiko.server import InteractiveQuery

USER = "root"
PASSWORD = "correct horse"

HANG = "hang"
"""A command line that is never answered."""
STALL = "stall"
"""A command line at which the server stops answering anything, until it is let go on."""
DROP = "drop"
"""A command line at which the server hangs up."""
REFUSE = "refuse"
"""A command line that the server does not run."""
KILL = "kill"
"""A command line that ends without a status."""
FLOOD = "flood"
"""A command line that fills both streams, error first."""
FLOOD_BYTES = 3 * 1024 * 1024


@dataclass(slots=True)
class SshServer:
    """What the server is and allows, and what it saw."""

    port: int
    host_key: paramiko.PKey
    methods: str = "password"
    """What the server offers, as SSH names it: password, keyboard-interactive, publickey."""
    user_key: paramiko.PKey | None = None
    lines: list[str] = field(default_factory=list)
    tries: list[str] = field(default_factory=list)
    agent_forwards: int = 0
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def known_hosts_line(self) -> str:
        return f"[127.0.0.1]:{self.port} {self.host_key.get_name()} {self.host_key.get_base64()}\n"


class SshServerInterface(paramiko.ServerInterface):
    """How one connection is answered."""

    def __init__(self, server: SshServer, transport: paramiko.Transport) -> None:
        self._server = server
        self._transport = transport

    def get_allowed_auths(self, username: str) -> str:
        return self._server.methods

    def check_auth_none(self, username: str) -> int:
        return AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        self._server.tries.append(f"password {username}")
        is_right = "password" in self._server.methods and (username, password) == (USER, PASSWORD)
        return AUTH_SUCCESSFUL if is_right else AUTH_FAILED

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        self._server.tries.append(f"keyboard-interactive {username}")
        return InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses: Sequence[str]) -> int:
        return AUTH_SUCCESSFUL if list(responses) == [PASSWORD] else AUTH_FAILED

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        self._server.tries.append(f"publickey {username}")
        return AUTH_SUCCESSFUL if key == self._server.user_key else AUTH_FAILED

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return OPEN_SUCCEEDED

    def check_channel_forward_agent_request(self, channel: paramiko.Channel) -> bool:
        self._server.agent_forwards += 1
        return False

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        line = command.decode("utf-8")
        self._server.lines.append(line)
        match line:
            case "refuse":
                return False
            case "drop":
                self._transport.close()
            case "stall":
                self._server.go_on.wait(timeout=120)
            case "hang":
                pass
            case _:
                threading.Thread(target=answer, args=(channel, line), daemon=True).start()
        return True


def answer(channel: paramiko.Channel, line: str) -> None:
    """Answer one command line; a client that has gone, even at the hang-up, is no fault of the server's."""
    with suppress(OSError, EOFError, paramiko.SSHException), closing(channel):
        # The client closes its input once it has given it; not before may the command end.
        channel.settimeout(120)
        stdin = b"".join(iter(lambda: channel.recv(65536), b""))
        match line:
            case "kill":
                pass
            case "flood":
                channel.sendall_stderr(b"e" * FLOOD_BYTES)
                channel.sendall(b"o" * FLOOD_BYTES)
                channel.send_exit_status(0)
            case _:
                done = subprocess.run(
                    ["/bin/sh", "-c", line], capture_output=True, input=stdin, check=False, timeout=120
                )
                channel.sendall(done.stdout)
                channel.sendall_stderr(done.stderr)
                channel.send_exit_status(done.returncode)


@contextmanager
def running_ssh_server(port: int = 0) -> Iterator[SshServer]:
    """Serve on a port of 127.0.0.1, a free one where none is given, until the block ends."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = SshServer(port=listener.getsockname()[1], host_key=paramiko.ECDSAKey.generate())
        transports: list[paramiko.Transport] = []
        acceptor = threading.Thread(target=accept, args=(listener, server, transports), daemon=True)
        acceptor.start()
        yield server
        server.go_on.set()
        # A blocked accept is not woken by closing alone.
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
    acceptor.join(timeout=120)
    for transport in transports:
        transport.close()


def accept(listener: socket.socket, server: SshServer, transports: list[paramiko.Transport]) -> None:
    """Take connections until the listener is closed; the server's key is looked up anew for each."""
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        transport = paramiko.Transport(connection)
        transports.append(transport)
        transport.add_server_key(server.host_key)
        # A client that leaves during the greeting has nothing to tell us.
        with suppress(OSError, EOFError, paramiko.SSHException):
            transport.start_server(event=threading.Event(), server=SshServerInterface(server, transport))
