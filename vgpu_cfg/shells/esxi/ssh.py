"""The meaning of a failed login or command on an ESXi host, and the remedy.

ESXi's SSH server accepts a password by keyboard-interactive, or a key; it locks an account after a few wrong
tries (Security.AccountLockFailures), so if the plan file names credentials, only these are tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import paramiko

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.shells.esxi import host_keys
from vgpu_cfg.shells.ssh import Endpoint, SshChannel, SshFailure, SshProblem, connect


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
        host_keys.load(client, files)
        client.set_missing_host_key_policy(
            host_keys.FirstKeyPolicy(login.policy, login.pinned, login.known_hosts)
        )

    try:
        connection = connect(login.endpoint, trust)
    except paramiko.BadHostKeyException as error:
        raise host_keys.changed_key(error, files) from error
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
                f"the host rejects the login of {endpoint.user}: {failure.said}",
                subject=subject,
                remedy=(
                    "check the secret specified in `access`, whether the account is locked, and whether "
                    "lockdown mode excludes this user"
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
                remedy="use a key without one, or load it into the SSH agent and set no key in `access`",
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
