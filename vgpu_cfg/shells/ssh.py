"""SSH connections: the login, its time limits, the kinds of failure, and the user's own configuration.

The meaning of a failure depends on the machine, so only its kind is given here; the modules for hosts and
guests add their own words and remedies. No agent is ever forwarded, and no terminal is asked for.

A machine's entry in the user's own OpenSSH configuration gives its address, port, user and key files. Of all
the options these four are honoured; a jump host is refused rather than left out, since without it another
machine might answer.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import logging
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import paramiko

from vgpu_cfg.errors import ReachError, VgpuCfgError
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.shells.channel import Executed

DEFAULT_PORT = 22
_CHUNK = 65536
_SEND_SECONDS = 0.05
"""Seconds to wait for a command's output while it does not read its input."""
_KEY_TYPES: tuple[type[paramiko.PKey], ...] = (paramiko.Ed25519Key, paramiko.ECDSAKey, paramiko.RSAKey)

_NOT_HONOURED = ("proxyjump", "proxycommand")


# What went wrong is raised; without a handler Python would print paramiko's log to the user's console.
logging.getLogger("paramiko").addHandler(logging.NullHandler())


class SshProblem(StrEnum):
    """The kinds of failure of a login or a command."""

    REFUSED = "refused"
    """The machine answers, and nothing listens on the port."""
    SILENT = "silent"
    """No answer in time."""
    UNREACHABLE = "unreachable"
    """No way there, or one that broke off before the login."""
    UNRESOLVED = "unresolved"
    NOT_LET_IN = "login rejected"
    NOTHING_TO_LOG_IN_WITH = "no credentials"
    LOCKED_KEY = "locked key"
    """The private key has a passphrase."""
    NO_KEY = "no key"
    """The text given as a private key is not a key."""
    LATE = "late"
    BROKEN = "broken"
    """The connection broke, or a command ended without a status."""
    FLOOD = "flood"
    """More was printed than anybody asked for."""


class SshFailure(Exception):
    """A failure by its kind; `said` is its known detail, in words."""

    def __init__(self, problem: SshProblem, said: str = "") -> None:
        super().__init__(said or problem)
        self.problem = problem
        self.said = said


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The login: address, account, credentials.

    `key` is the text of a private key; `key_files` are tried only where neither it nor a password is given,
    as are the agent's. `timeout_seconds` is for the connection, the greeting and the login, each; `limits`
    bounds a command's output.
    """

    host: str
    user: str
    port: int = DEFAULT_PORT
    password: str | None = field(default=None, repr=False)
    key: str | None = field(default=None, repr=False)
    key_files: tuple[str, ...] = ()
    timeout_seconds: float = 15.0
    limits: Limits = field(default_factory=Limits)

    @property
    def subject(self) -> str:
        """How it is named in errors."""
        port = "" if self.port == DEFAULT_PORT else f":{self.port}"
        return f"{self.user}@{self.host}{port}"


class SshConnection:
    """One login; every command has a session of its own. Raises `SshFailure`."""

    def __init__(self, client: paramiko.SSHClient, limits: Limits) -> None:
        self._client = client
        self._limits = limits

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line, give it its input, and wait for its end."""
        deadline = time.monotonic() + timeout_seconds
        transport = self._client.get_transport()
        if transport is None or not transport.is_active():
            raise SshFailure(SshProblem.BROKEN, "the connection is closed")
        try:
            channel = transport.open_session(timeout=max(timeout_seconds, 0.001))
            # paramiko waits without a limit for a command to start; closing the channel ends the wait.
            watchdog = threading.Timer(timeout_seconds, _hang_up, [channel])
            watchdog.daemon = True
            watchdog.start()
            try:
                channel.exec_command(line)
                return _converse(channel, memoryview(stdin), deadline, self._limits)
            finally:
                watchdog.cancel()
                _hang_up(channel)
        except (paramiko.SSHException, OSError, EOFError) as error:
            if isinstance(error, TimeoutError) or time.monotonic() >= deadline:
                raise SshFailure(SshProblem.LATE, f"took longer than {timeout_seconds:g} s") from error
            raise SshFailure(SshProblem.BROKEN, f"the connection was interrupted: {_said(error)}") from error

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        self._client.close()


class SshChannel:
    """A `remote.Channel` over one login; `to_error` makes the user's error from a failure and its line."""

    def __init__(
        self, connection: SshConnection, to_error: Callable[[SshFailure, str], VgpuCfgError]
    ) -> None:
        self._connection = connection
        self._to_error = to_error

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line and wait for its end.

        Raises the result of `to_error` if it takes longer, prints too much, or the connection breaks.
        """
        try:
            return self._connection.execute(line, timeout_seconds, stdin)
        except SshFailure as failure:
            raise self._to_error(failure, line) from failure

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        self._connection.close()


def connect(endpoint: Endpoint, trust: Callable[[paramiko.SSHClient], None]) -> SshConnection:
    """Log in once; `trust` sets the host keys that the client trusts.

    Raises SshFailure; errors of `trust` and its policy are passed on unchanged, and so is
    `paramiko.BadHostKeyException`.
    """
    client = paramiko.SSHClient()
    is_named = endpoint.password is not None or endpoint.key is not None
    key_files = None if is_named else list(endpoint.key_files)
    try:
        trust(client)
        client.connect(
            endpoint.host,
            port=endpoint.port,
            username=endpoint.user,
            password=endpoint.password,
            pkey=None if endpoint.key is None else private_key(endpoint.key),
            key_filename=key_files,  # type: ignore[arg-type] # a list is taken too, as paramiko's own docstring says
            allow_agent=not is_named,
            look_for_keys=not is_named,
            timeout=endpoint.timeout_seconds,
            banner_timeout=endpoint.timeout_seconds,
            auth_timeout=endpoint.timeout_seconds,
            channel_timeout=endpoint.timeout_seconds,
        )
    except BaseException as error:
        client.close()
        failure = _failure(error)
        if failure is None:
            raise
        raise failure from error
    return SshConnection(client, endpoint.limits)


def secret_value(
    secrets: Mapping[str, str], name: str | None, subject: str, failure: type[ReachError]
) -> str | None:
    """Return the value of a secret's name, None for no name. Raises `failure` if it has no value."""
    if name is None:
        return None
    if name not in secrets:
        raise failure(
            f"the secret {name} has no value",
            subject=subject,
            remedy=f"set a value for {name} in the source specified under the plan file's `secrets`",
        )
    return secrets[name]


def private_key(text: str) -> paramiko.PKey:
    """Read a private key from its text, whatever its kind. Raises SshFailure where it is none, or locked."""
    for kind in _KEY_TYPES:
        try:
            return kind.from_private_key(io.StringIO(text.strip() + "\n"))
        except paramiko.PasswordRequiredException as error:
            raise SshFailure(SshProblem.LOCKED_KEY, "the private key has a passphrase") from error
        except (paramiko.SSHException, ValueError, IndexError, UnicodeError):
            continue
    raise SshFailure(SshProblem.NO_KEY, "it does not contain a private key")


def fingerprint(key: paramiko.PKey) -> str:
    """Spell a key's SHA-256 as OpenSSH does: `SHA256:` and base64 without padding."""
    digest = hashlib.sha256(key.asbytes()).digest()
    return f"SHA256:{base64.b64encode(digest).decode('ascii').rstrip('=')}"


def _failure(error: BaseException) -> SshFailure | None:
    """Say which kind of failure an error is; None where it is not the connection's."""
    match error:
        case VgpuCfgError() | SshFailure() | paramiko.BadHostKeyException():
            return None
        case paramiko.AuthenticationException():
            return SshFailure(SshProblem.NOT_LET_IN, _said(error))
        case paramiko.ssh_exception.NoValidConnectionsError() if _is_refused(error):
            return SshFailure(SshProblem.REFUSED, _said(error))
        case socket.gaierror() | UnicodeError():
            return SshFailure(SshProblem.UNRESOLVED, _said(error))
        case TimeoutError():
            return SshFailure(SshProblem.SILENT, _said(error))
        case paramiko.SSHException() if "No authentication methods" in str(error):
            return SshFailure(SshProblem.NOTHING_TO_LOG_IN_WITH, _said(error))
        case paramiko.SSHException() | EOFError() | OSError():
            return SshFailure(SshProblem.UNREACHABLE, _said(error))
        case _:
            return None


def _converse(channel: paramiko.Channel, stdin: memoryview, deadline: float, limits: Limits) -> Executed:
    """Write the input and read both streams as they come, so that none can block another."""
    out, err = bytearray(), bytearray()
    is_writing = True
    while True:
        stdin = _feed(channel, stdin) if is_writing else stdin
        if is_writing and not stdin:
            is_writing = False
            channel.shutdown_write()
        is_over = channel.eof_received or channel.closed
        while channel.recv_ready():
            out += channel.recv(_CHUNK)
            _check_size(len(out) + len(err), limits)
        while channel.recv_stderr_ready():
            err += channel.recv_stderr(_CHUNK)
            _check_size(len(out) + len(err), limits)
        # It was over before the last look, so nothing can have come since.
        if is_over:
            break
        left = _left(deadline)
        select.select([channel], [], [], min(left, _SEND_SECONDS) if is_writing else left)
    channel.status_event.wait(_left(deadline))
    _left(deadline)
    if channel.exit_status < 0:
        why = "was killed or the connection was closed" if channel.closed else "returned no status"
        raise SshFailure(SshProblem.BROKEN, f"the command {why} before it finished")
    return Executed(status=channel.exit_status, stdout=bytes(out), stderr=bytes(err))


def _check_size(size: int, limits: Limits) -> None:
    if size > limits.answer_bytes:
        raise SshFailure(SshProblem.FLOOD, f"output exceeds {limits.answer_mib} MiB")


def _feed(channel: paramiko.Channel, stdin: memoryview) -> memoryview:
    """Write as much of the input as is taken now; return the rest, none where the command has ended."""
    while stdin and channel.send_ready():
        try:
            stdin = stdin[channel.send(bytes(stdin[:_CHUNK])) :]
        except OSError:
            if channel.closed or channel.eof_received:
                return memoryview(b"")
            raise
    return memoryview(b"") if channel.closed or channel.eof_received else stdin


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


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The configuration of one host; `user` None if it sets none."""

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    key_files: tuple[str, ...] = ()


def options_for(host_name: str, path: Path | None, failure: type[ReachError]) -> HostOptions:
    """Look a machine up in an OpenSSH configuration file; without one, its name is used.

    Raises `failure` if the file cannot be read, or asks for a jump host.
    """
    if path is None or not path.exists():
        return HostOptions(host_name)
    try:
        found = paramiko.SSHConfig.from_path(str(path)).lookup(host_name)
        port = int(found.get("port", DEFAULT_PORT))
    except (OSError, ValueError, ImportError, paramiko.SSHException) as error:
        raise failure(
            f"cannot be read: {error}",
            subject=str(path),
            remedy="fix the file, or do not use an SSH configuration",
        ) from error
    jump = next((name for name in _NOT_HONOURED if found.get(name, "none") not in (None, "none")), None)
    if jump is not None:
        raise failure(
            f"requires {jump} to reach {host_name}, which is not supported",
            subject=str(path),
            remedy="run vgpu-cfg on a machine that can reach the host directly",
        )
    return HostOptions(
        host=found.get("hostname", host_name),
        port=port,
        user=found.get("user"),
        # As OpenSSH does: a key file that is not there is left out.
        key_files=tuple(file for file in found.get("identityfile", ()) if Path(file).is_file()),
    )
