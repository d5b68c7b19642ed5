"""One SSH connection to a simulated host: who is let in, and a command line run for each exec request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress

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
from vgpu_cfg.lab.shell.access import ShellAccess
from vgpu_cfg.lab.shell.shell import LabShell
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Host

METHODS = "publickey,keyboard-interactive,password"
"""ESXi's sshd asks for a password by keyboard-interactive; the lab takes the plain method, too."""

PATIENCE_SECONDS = 30.0
"""How long a client may leave its output unread."""


class HostTransport(paramiko.Transport):
    """The server's end of a connection. Commands begin only after the client was told that they do.

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
        """Let nobody in for nothing."""
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
        """Judge what was answered."""
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
