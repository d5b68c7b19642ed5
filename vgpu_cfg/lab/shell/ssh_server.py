"""The hosts' shells behind SSH: one listening socket per host on the loopback, and each of its connections.

The socket is open while the host's own is: if a host is away, its SSH service stopped or its ruleset closed,
its port refuses connections. Open connections are closed when the host goes, and stay open when only the
service stops, as sshd's children do. Commands are run one at a time per request; there is no terminal, no
login shell, no file transfer.

A connection has a login, and runs a command line for each exec request.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import paramiko
from paramiko.common import (
    AUTH_FAILED,
    AUTH_SUCCESSFUL,
    MSG_CHANNEL_SUCCESS,
    OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED,
    OPEN_SUCCEEDED,
)
from paramiko.server import InteractiveQuery

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab.shell.shell import ANY_PASSWORD, LabShell, ShellAccess, is_reachable, why_closed
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Host

POLL_SECONDS = 0.5
"""Seconds until what another process did to a host is seen here."""

KEY_FOLDER, KNOWN_HOSTS, SSH_CONFIG = "ssh", "known_hosts", "ssh_config"

METHODS = "publickey,keyboard-interactive,password"
"""ESXi's sshd asks for a password by keyboard-interactive; the lab takes the plain method, too."""

PATIENCE_SECONDS = 30.0
"""How long a client may leave its output unread."""


# What goes wrong on a connection is the client's to tell; without a handler Python would print it.
logging.getLogger("paramiko").addHandler(logging.NullHandler())

Endpoints = Mapping[str, tuple[str, int]]
"""Host name → where its SSH server listens."""


class LabSshServer:
    """The SSH servers of all hosts of a lab. `endpoints` are known from construction on.

    They answer inside `with`. `folder` keeps the hosts' keys; None makes new ones. `first_port` and those
    after it are the ports; 0 takes free ones. Raises OSError where one is taken.
    """

    def __init__(
        self,
        lab: Simulation,
        *,
        address: str = "127.0.0.1",
        first_port: int = 0,
        folder: Path | None = None,
        access: ShellAccess = ANY_PASSWORD,
    ) -> None:
        self._lab = lab
        self._access = access
        self._hosts = {host.name: host.moid for host in lab.state.all(Host)}
        # Each keeps its port until the end: freed for a moment, it could go to another process.
        self._ports: dict[str, socket.socket] = {}
        self._open: dict[str, socket.socket] = {}
        self._moved = threading.Condition()
        self._transports: dict[str, list[HostTransport]] = {name: [] for name in self._hosts}
        self._keys = {host.name: _host_key(folder, host) for host in lab.state.all(Host)}
        try:
            for number, name in enumerate(self._hosts):
                self._ports[name] = _bound(address, first_port + number if first_port else 0)
        except OSError:
            self._close_sockets()
            raise
        self.endpoints: Endpoints = {
            name: (address, bound.getsockname()[1]) for name, bound in self._ports.items()
        }
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._is_stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def known_hosts_text(self) -> str:
        """Return the hosts' keys as an OpenSSH known_hosts file."""
        return "".join(
            f"[{address}]:{port} {self._keys[name].get_name()} {self._keys[name].get_base64()}\n"
            for name, (address, port) in self.endpoints.items()
        )

    def wait_until(self, host_name: str, *, is_open: bool, timeout_seconds: float = 30.0) -> bool:
        """Wait until a host's port is open, or closed; it follows the lab a moment behind."""
        with self._moved:
            return self._moved.wait_for(lambda: (host_name in self._open) is is_open, timeout_seconds)

    def __enter__(self) -> Self:
        self._follow_hosts()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._serve, self._watch_lab)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_stopping.set()
        self._wake()
        with self._lab.changed:
            self._lab.changed.notify_all()
        for thread in self._threads:
            thread.join()
        for name in self._transports:
            self._hang_up(name)
        self._selector.close()
        self._woken.close()
        self._waker.close()
        self._close_sockets()

    def _close_sockets(self) -> None:
        for each in (*self._open.values(), *self._ports.values()):
            each.close()

    def _wake(self) -> None:
        with suppress(OSError):
            self._waker.send(b"!")

    def _watch_lab(self) -> None:
        """Wake the other thread whenever something changed, or might have elsewhere."""
        while not self._is_stopping.is_set():
            with self._lab.changed:
                self._lab.changed.wait(POLL_SECONDS)
            self._wake()

    def _serve(self) -> None:
        while not self._is_stopping.is_set():
            for key, _ in self._selector.select():
                if key.data is None:
                    self._woken.recv(4096)
                    self._follow_hosts()
                elif key.data in self._open:
                    self._take(key.data)

    def _follow_hosts(self) -> None:
        """Listen where a host's SSH server would, and nowhere else."""
        with self._lab.transaction():
            hosts = {name: self._lab.state.get(moid, Host) for name, moid in self._hosts.items()}
            wanted = {name for name, host in hosts.items() if why_closed(host) is None}
            gone = [name for name, host in hosts.items() if not is_reachable(host)]
        for name in gone:
            self._hang_up(name)
        kept = {name: listening for name, listening in self._open.items() if name in wanted}
        for name in self._open.keys() - wanted:
            self._selector.unregister(self._open[name])
            self._open[name].close()
        for name in wanted - kept.keys():
            kept[name] = _bound(*self.endpoints[name])
            kept[name].listen()
            kept[name].setblocking(False)
            self._selector.register(kept[name], selectors.EVENT_READ, name)
        with self._moved:
            self._open = kept
            self._moved.notify_all()

    def _take(self, name: str) -> None:
        """Greet each client."""
        try:
            connection, _ = self._open[name].accept()
        except OSError:  # it hung up before it was greeted
            return
        connection.setblocking(True)
        transport = HostTransport(connection)
        transport.add_server_key(self._keys[name])
        self._transports[name] = [each for each in self._transports[name] if each.is_active()] + [transport]
        login = SshLogin(self._lab, self._hosts[name], self._access, transport)
        with suppress(OSError, EOFError, paramiko.SSHException):  # it left during the greeting
            transport.start_server(event=threading.Event(), server=login)

    def _hang_up(self, name: str) -> None:
        for transport in self._transports[name]:
            transport.close()
        self._transports[name] = []


@contextmanager
def serve_ssh(
    lab: Simulation, folder: Path | None = None, *, first_port: int = 0, access: ShellAccess = ANY_PASSWORD
) -> Iterator[Endpoints]:
    """Serve the shells of all hosts for as long as the context lasts; yield where each listens.

    `folder` keeps the hosts' keys, and gets `known_hosts` and an `ssh_config` for OpenSSH and for this
    tool. Raises OSError.
    """
    with LabSshServer(lab, folder=folder, first_port=first_port, access=access) as server:
        if folder is not None:
            known = folder / KNOWN_HOSTS
            known.write_text(server.known_hosts_text(), encoding="ascii")
            (folder / SSH_CONFIG).write_text(ssh_config_text(server.endpoints, known), encoding="utf-8")
        yield server.endpoints


def ssh_config_text(mapping: Endpoints, known_hosts: Path | None = None) -> str:
    """Return an OpenSSH configuration by which the hosts' own names lead here."""
    trust: Sequence[str] = ()
    if known_hosts is not None:
        trust = (f'UserKnownHostsFile "{known_hosts}"', "StrictHostKeyChecking yes")
    return "\n".join(
        "\n    ".join([f"Host {name}", f"HostName {address}", f"Port {port}", "User root", *trust]) + "\n"
        for name, (address, port) in mapping.items()
    )


def _bound(address: str, port: int) -> socket.socket:
    """Return a socket that holds a port without listening: connections to it are refused."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


def _host_key(folder: Path | None, host: Host) -> paramiko.PKey:
    """Return a host's key, the same as ever where there is a folder."""
    if folder is None:
        return paramiko.ECDSAKey.generate()
    path = folder / KEY_FOLDER / f"{host.uuid}.key"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        paramiko.ECDSAKey.generate().write_private_key_file(str(path))
    return paramiko.ECDSAKey.from_private_key_file(str(path))


class HostTransport(paramiko.Transport):
    """The server's end of a connection. Commands begin only after the client was informed of that.

    A status that overtakes that answer would end the channel before the client knows of it.
    """

    def __init__(self, connection: object) -> None:
        super().__init__(connection)  # type: ignore[arg-type]  # a socket, among other things
        self.accepted: list[Callable[[], None]] = []

    def _send_user_message(self, data: paramiko.Message) -> None:
        super()._send_user_message(data)  # type: ignore[misc]  # the stubs leave it out
        if data.asbytes()[0] == MSG_CHANNEL_SUCCESS:
            waiting, self.accepted = self.accepted, []
            for work in waiting:
                threading.Thread(target=work, daemon=True).start()


class SshLogin(paramiko.ServerInterface):
    """How one connection to a host is answered."""

    def __init__(self, lab: Simulation, moid: str, access: ShellAccess, transport: HostTransport) -> None:
        self._lab = lab
        self._moid = moid
        self._access = access
        self._transport = transport
        self._shell: LabShell | None = None
        self._user = ""

    def get_allowed_auths(self, username: str) -> str:
        """Name what may be tried."""
        return METHODS

    def check_auth_none(self, username: str) -> int:
        """Refuse logins without credentials."""
        return AUTH_FAILED

    def check_auth_password(self, username: str, password: str) -> int:
        """Judge a password."""
        return self._let_in(lambda host: self._access.takes_password(host, username, password))

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        """Judge a key."""
        text = f"{key.get_name()} {key.get_base64()}"
        return self._let_in(lambda host: self._access.takes_key(host, username, text))

    def check_auth_interactive(self, username: str, submethods: str) -> int | InteractiveQuery:
        """Ask for the password, as ESXi does."""
        self._user = username
        return InteractiveQuery("", "", ("Password: ", False))

    def check_auth_interactive_response(self, responses: Sequence[str]) -> int:
        """Check the answers."""
        return self.check_auth_password(self._user, responses[0] if responses else "")

    def check_channel_request(self, kind: str, chanid: int) -> int:
        """Open sessions, and nothing else."""
        return OPEN_SUCCEEDED if kind == "session" else OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        """Take a command line."""
        shell = self._shell
        if shell is None:
            return False
        line = command.decode("utf-8", "replace")
        self._transport.accepted.append(lambda: self._answer(channel, shell, line))
        return True

    def _let_in(self, is_allowed: Callable[[Host], bool]) -> int:
        with self._lab.transaction():
            host = self._lab.state.get(self._moid, Host)
            if not is_allowed(host):
                return AUTH_FAILED
            self._shell = LabShell(self._lab, host)
        return AUTH_SUCCESSFUL

    def _answer(self, channel: paramiko.Channel, shell: LabShell, line: str) -> None:
        try:
            status, out, err = shell.execute(line)
        except HostShellError:
            self._transport.close()
            return
        # A client that has gone wants no answer, and no goodbye.
        with suppress(OSError, EOFError, paramiko.SSHException), closing(channel):
            channel.settimeout(PATIENCE_SECONDS)
            channel.sendall(out.encode())
            channel.sendall_stderr(err.encode())
            channel.send_exit_status(status)
