"""How a host's shell is reached by SSH: the login, time limits, and what each failure means to a user.

ESXi's SSH server takes a password by keyboard-interactive, or a key; it locks an account after a few wrong
tries (Security.AccountLockFailures), so only what the plan file names is tried where it names something.
No agent is ever forwarded, and no terminal is asked for.
"""

from __future__ import annotations

import contextlib
import io
import logging
import select
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import paramiko

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.esxi import host_keys
from vgpu_cfg.ports import ShellResult

DEFAULT_PORT = 22
OUTPUT_LIMIT_BYTES = 16 * 1024 * 1024
"""Nothing that this tool asks prints a hundredth of it."""
_CHUNK = 65536
_KEY_TYPES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)

# What went wrong is raised; without a handler Python would print paramiko's log to the user's console.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class ConnectionRefused(HostShellError):
    """Nothing answered yet; straight after the service was started it may answer soon."""


@dataclass(frozen=True, slots=True)
class Login:
    """Whom to log in as, where, and whose key to believe.

    `known_hosts` are read, `pinned` is read and, under policy "pin", written. `key` is the text of a
    private key, `key_files` are tried only where neither it nor a password is given, as are the agent's.
    """

    host: str
    user: str
    pinned: Path
    port: int = DEFAULT_PORT
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_files: tuple[str, ...] = ()
    known_hosts: tuple[Path, ...] = ()
    policy: Literal["known", "pin"] = "known"
    timeout_seconds: float = 15.0

    @property
    def subject(self) -> str:
        """How it is named in errors."""
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        return f"{self.user}@{self.host}{port}"


class SshChannel:
    """A `CommandChannel` over one SSH connection; every command has a session of its own."""

    def __init__(self, client: paramiko.SSHClient, subject: str) -> None:
        self._client = client
        self._subject = subject

    def execute(self, line: str, timeout_seconds: float) -> ShellResult:
        """Run one command line and wait for its end.

        Raises HostShellError where it takes longer, prints too much, or the connection breaks.
        """
        deadline = time.monotonic() + timeout_seconds
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise self._broken("the connection is closed")
        try:
            channel = transport.open_session(timeout=max(timeout_seconds, 0.001))
            # paramiko waits without a limit for a command to start; closing the channel ends the wait.
            watchdog = threading.Timer(timeout_seconds, _hang_up, [channel])
            watchdog.daemon = True
            watchdog.start()
            try:
                channel.exec_command(line)
                channel.shutdown_write()
                return self._collect(channel, line, deadline)
            finally:
                watchdog.cancel()
                _hang_up(channel)
        except (paramiko.SSHException, OSError, EOFError) as error:
            if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
                raise self._late(line, timeout_seconds) from error
            raise self._broken(f"the connection broke: {_said(error)}") from error

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        self._client.close()

    def _collect(self, channel: paramiko.Channel, line: str, deadline: float) -> ShellResult:
        """Read both streams as they come, so that neither can block the other."""
        out, err = bytearray(), bytearray()
        while True:
            is_over = channel.eof_received or channel.closed
            while channel.recv_ready():
                out += channel.recv(_CHUNK)
            while channel.recv_stderr_ready():
                err += channel.recv_stderr(_CHUNK)
            if len(out) + len(err) > OUTPUT_LIMIT_BYTES:
                raise HostShellError(
                    f"printed more than {OUTPUT_LIMIT_BYTES // 2**20} MiB: {line}",
                    subject=self._subject,
                    remedy="run the command by hand and see why it prints so much",
                )
            # It was over before the last look, so nothing can have come since.
            if is_over:
                break
            select.select([channel], [], [], _left(deadline))
        channel.status_event.wait(_left(deadline))
        _left(deadline)
        if channel.exit_status < 0:
            why = "was killed on the host, or the connection closed" if channel.closed else "tells no status"
            raise self._broken(f"the command {why} before it ended: {line}")
        return ShellResult(status=channel.exit_status, stdout=_text(out), stderr=_text(err))

    def _late(self, line: str, timeout_seconds: float) -> HostShellError:
        return HostShellError(
            f"took longer than {timeout_seconds:g} s: {line}",
            subject=self._subject,
            remedy="the command may still run on the host: look there before you run it again",
        )

    def _broken(self, why: str) -> HostShellError:
        return HostShellError(
            why,
            subject=self._subject,
            remedy="see whether the host is up and its SSH service runs, then run the command again",
        )


def open_channel(login: Login) -> SshChannel:
    """Log in once.

    Raises ConnectionRefused where nothing listens or answers, UnknownHostKey or ChangedHostKey for the
    host's key, and HostShellError for everything else.
    """
    client = paramiko.SSHClient()
    files = (*login.known_hosts, login.pinned)
    host_keys.load(client, files)
    client.set_missing_host_key_policy(
        host_keys.JudgeFirstKeys(login.policy, login.pinned, login.known_hosts)
    )
    is_named = login.password is not None or login.key is not None
    key_files = None if is_named else list(login.key_files)
    try:
        client.connect(
            login.host,
            port=login.port,
            username=login.user,
            password=login.password,
            pkey=_private_key(login),
            key_filename=key_files,  # type: ignore[arg-type] # a list is taken too, as paramiko's own docstring says
            allow_agent=not is_named,
            look_for_keys=not is_named,
            timeout=login.timeout_seconds,
            banner_timeout=login.timeout_seconds,
            auth_timeout=login.timeout_seconds,
            channel_timeout=login.timeout_seconds,
        )
    except BaseException as error:
        client.close()
        failure = _connect_failure(login, error, files)
        if failure is None:
            raise
        raise failure from error
    return SshChannel(client, login.subject)


def _connect_failure(login: Login, error: BaseException, files: Sequence[Path]) -> HostShellError | None:
    """Say what a failed login means; None where the error is not the connection's."""
    subject = login.subject
    match error:
        case HostShellError():
            return None
        case paramiko.BadHostKeyException():
            return host_keys.changed_key(error, files)
        case paramiko.AuthenticationException():
            return HostShellError(
                f"the host does not let {login.user} in: {_said(error)}",
                subject=subject,
                remedy=(
                    "check the secret that `access` names and whether the account is locked, and whether "
                    "lockdown mode keeps this user out"
                ),
            )
        case paramiko.ssh_exception.NoValidConnectionsError() if _is_refused(error):
            return ConnectionRefused(
                "nothing takes SSH connections there",
                subject=subject,
                remedy="start the host's SSH service, or let `ssh: open-and-close` do it; see the firewall",
            )
        case socket.gaierror() | UnicodeError():
            return HostShellError(
                f"the name cannot be resolved: {_said(error)}",
                subject=subject,
                remedy="use a name that this machine can resolve, or give it one in the SSH configuration",
            )
        case TimeoutError():
            return ConnectionRefused(
                f"no answer within {login.timeout_seconds:g} s",
                subject=subject,
                remedy="see whether the host is up and whether a firewall drops port 22 on the way",
            )
        case paramiko.SSHException() if "No authentication methods" in str(error):
            return HostShellError(
                "there is nothing to log in with",
                subject=subject,
                remedy="name a secret with a password or a key in `access`, or load a key into the SSH agent",
            )
        case paramiko.SSHException() | EOFError() | OSError():
            return ConnectionRefused(
                f"cannot be reached: {_said(error)}",
                subject=subject,
                remedy="see whether the host is up, and that its SSH service answers on this port",
            )
        case _:
            return None


def _private_key(login: Login) -> paramiko.PKey | None:
    """Read the private key from its text, whatever its kind.

    Raises HostShellError where it is none, or has a passphrase.
    """
    if login.key is None:
        return None
    for kind in _KEY_TYPES:
        try:
            return kind.from_private_key(io.StringIO(login.key.strip() + "\n"))
        except paramiko.PasswordRequiredException as error:
            raise HostShellError(
                "the private key has a passphrase",
                subject=login.subject,
                remedy="give one without, or load it into the SSH agent and name no key in `access`",
            ) from error
        except (paramiko.SSHException, ValueError, IndexError, UnicodeError):
            continue
    raise HostShellError(
        "the secret that `access` names as key holds no private key",
        subject=login.subject,
        remedy="give the whole text of an OpenSSH or PEM private key: Ed25519, ECDSA or RSA",
    )


def _is_refused(error: paramiko.ssh_exception.NoValidConnectionsError) -> bool:
    """Whether at least one address answered, by refusing; the others cannot be reached."""
    return any(isinstance(each, ConnectionRefusedError) for each in error.errors.values())


def _hang_up(channel: paramiko.Channel) -> None:
    """Close a channel; where the connection has gone, the channel has gone with it, and that is no news."""
    with contextlib.suppress(paramiko.SSHException, OSError, EOFError):
        channel.close()


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _text(data: bytearray) -> str:
    return bytes(data).decode("utf-8", errors="replace")


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__
