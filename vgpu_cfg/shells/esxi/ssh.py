"""SSH to an ESXi host: whose host key is believed, and the meaning of a failed login or command.

A host key is one from a known_hosts file, or a first one if the plan file says so. A key that differs from
the known one is never taken, whatever the plan file says. First keys are written to a file of this tool's
own, never to the user's.

ESXi's SSH server accepts a password by keyboard-interactive, or a key; it locks an account after a few wrong
tries (Security.AccountLockFailures), so if the plan file names credentials, only these are tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import paramiko

from vgpu_cfg.documents import PRIVATE, append_whole, make_private_folder
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.shells.ssh import Endpoint, SshChannel, SshFailure, SshProblem, connect, fingerprint

_KEYGEN = "/usr/lib/vmware/openssh/bin/ssh-keygen"
"""Its path on ESXi; it is not in PATH there."""


class UnknownHostKey(HostShellError):
    """The host's key is not yet trusted."""


class ChangedHostKey(HostShellError):
    """The host shows another key than the one that is known."""


class FirstKeyPolicy(paramiko.MissingHostKeyPolicy):
    """The handling of a host key that no file knows: refuse it, or pin it."""

    def __init__(self, policy: Literal["known", "pin"], pinned: Path, known: Sequence[Path]) -> None:
        self._policy = policy
        self._pinned = pinned
        self._known = known

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Pin the key, or raise UnknownHostKey; paramiko's own signature."""
        del client
        if self._policy == "pin":
            pin(self._pinned, hostname, key)
            return
        files = " or ".join(str(path) for path in (*self._known, self._pinned))
        raise UnknownHostKey(
            f"this host's key is not trusted: {key.get_name()} {fingerprint(key)}",
            subject=hostname,
            remedy=(
                f"compare the fingerprint on the host's console (`{_KEYGEN} -lf {_key_file(key)}`), then add "
                f"the key to {files}, or set `host_keys: pin` in the plan file's access"
            ),
        )


def _key_file(key: paramiko.PKey) -> str:
    """Name the file of the host's public key, as its SSH server does."""
    name = key.get_name()
    kind = next((kind for kind in ("rsa", "ecdsa", "ed25519") if kind in name), name)
    return f"/etc/ssh/ssh_host_{kind}_key.pub"


def changed_key(error: paramiko.BadHostKeyException, files: Sequence[Path]) -> ChangedHostKey:
    """Say that a host's key is another one than before."""
    known, shown = error.expected_key, error.key
    return ChangedHostKey(
        f"the host's key has changed: expected {known.get_name()} {fingerprint(known)}, received "
        f"{shown.get_name()} {fingerprint(shown)}",
        subject=error.hostname,
        remedy=(
            "if the host was reinstalled, compare the fingerprint on its console and remove its old line "
            f"from {' or '.join(str(path) for path in files)}; otherwise the connection may be "
            "intercepted"
        ),
    )


def load(client: paramiko.SSHClient, files: Sequence[Path]) -> None:
    """Let a client know the keys of these files; one that is absent knows none.

    Raises HostShellError where a file cannot be read.
    """
    for path in files:
        if not path.exists():
            continue
        try:
            client.load_system_host_keys(str(path))
        except (OSError, ValueError, paramiko.SSHException) as error:
            raise HostShellError(
                f"cannot be read: {error}", subject=str(path), remedy="fix the file, or specify another one"
            ) from error


def pin(path: Path, hostname: str, key: paramiko.PKey) -> None:
    """Add a host's first key to this tool's own file, readable by its user alone.

    Raises HostShellError where the file cannot be written.
    """
    line = f"{hostname} {key.get_name()} {key.get_base64()}\n"
    try:
        make_private_folder(path.parent)
        append_whole(path, line.encode("ascii"), mode=PRIVATE)
    except (OSError, UnicodeEncodeError) as error:
        raise HostShellError(
            f"cannot save the host's key: {error}",
            subject=str(path),
            remedy="make the file's folder writable, or use another state folder",
        ) from error


class ConnectionRefused(HostShellError):
    """Nothing answered yet; straight after the service was started it may answer soon."""


@dataclass(frozen=True, slots=True)
class Login:
    """The login address, and the trusted keys.

    `known_hosts` are read, `pinned` is read and, under policy "pin", written.
    """

    endpoint: Endpoint = field(repr=False)
    pinned: Path
    known_hosts: tuple[Path, ...] = ()
    policy: Literal["known", "pin"] = "known"


def open_channel(login: Login) -> SshChannel:
    """Log in once.

    Raises ConnectionRefused where nothing listens or answers, UnknownHostKey or ChangedHostKey for the
    host's key, and HostShellError for everything else.
    """
    files = (*login.known_hosts, login.pinned)

    def trust(client: paramiko.SSHClient) -> None:
        load(client, files)
        client.set_missing_host_key_policy(FirstKeyPolicy(login.policy, login.pinned, login.known_hosts))

    try:
        connection = connect(login.endpoint, trust)
    except paramiko.BadHostKeyException as error:
        raise changed_key(error, files) from error
    except SshFailure as failure:
        raise _login_error(login.endpoint, failure) from failure
    return SshChannel(connection, lambda failure, line: _command_error(login.endpoint.subject, failure, line))


def _command_error(subject: str, failure: SshFailure, line: str) -> HostShellError:
    match failure.problem:
        case SshProblem.LATE:
            remedy = "the command may still be running on the host; check before you run it again"
        case SshProblem.FLOOD:
            remedy = (
                "run the command manually to see why its output is so large, or raise VGPU_CFG_ANSWER_MIB"
            )
        case _:
            remedy = "check whether the host is up and its SSH service is running, then run the command again"
    return HostShellError(f"{failure.said}: {line}", subject=subject, remedy=remedy)


def _login_error(endpoint: Endpoint, failure: SshFailure) -> HostShellError:
    """Return the meaning of a failed login."""
    subject = endpoint.subject
    match failure.problem:
        case SshProblem.NOT_LET_IN:
            return HostShellError(
                f"the host rejected {endpoint.user}'s login: {failure.said}",
                subject=subject,
                remedy=(
                    "check the secret specified in `access`, whether the account is locked, and whether "
                    "lockdown mode blocks this user"
                ),
            )
        case SshProblem.REFUSED:
            return ConnectionRefused(
                "no SSH service is listening",
                subject=subject,
                remedy="start the host's SSH service, or set `ssh: open-and-close`; check the firewall",
            )
        case SshProblem.UNRESOLVED:
            return HostShellError(
                f"the name cannot be resolved: {failure.said}",
                subject=subject,
                remedy="use a name that this machine can resolve, or add it to the SSH configuration",
            )
        case SshProblem.SILENT:
            return ConnectionRefused(
                f"no response within {endpoint.timeout_seconds:g} s",
                subject=subject,
                remedy="check whether the host is up and whether a firewall blocks port 22",
            )
        case SshProblem.NOTHING_TO_LOG_IN_WITH:
            return HostShellError(
                "no credentials for login",
                subject=subject,
                remedy="set a secret with a password or a key in `access`, or load a key into the SSH agent",
            )
        case SshProblem.LOCKED_KEY:
            return HostShellError(
                "the private key has a passphrase",
                subject=subject,
                remedy="use a key without a passphrase, or load it into the SSH agent and do not set a "
                "key in `access`",
            )
        case SshProblem.NO_KEY:
            return HostShellError(
                "the key secret specified in `access` does not contain a private key",
                subject=subject,
                remedy="provide the full text of an OpenSSH or PEM private key: Ed25519, ECDSA, or RSA",
            )
        case _:
            return ConnectionRefused(
                f"cannot be reached: {failure.said}",
                subject=subject,
                remedy="check whether the host is up and its SSH service responds on this port",
            )
