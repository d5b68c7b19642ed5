"""The meaning of a failed login or command in a guest, and background commands.

The trusted host key of a guest: the one that it has reported to vCenter, or one in the user's known_hosts.

No first key is ever taken on trust. A guest that has reported none, as one that this tool has not set up yet
or whose VMware Tools do not run, is accepted by the user's known_hosts alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import paramiko

from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.shells.ssh import (
    Endpoint,
    SshChannel,
    SshConnection,
    SshFailure,
    SshProblem,
    connect,
    fingerprint,
)

START_SECONDS = 60.0
# What systemd runs outlives the login, whatever logind is told to kill; else it gets a session of its own.
# Belief: systemd-run-outlives-login.
_DETACH = """\
if command -v systemd-run >/dev/null 2>&1 && [ -d /run/systemd/system ]; then
  exec systemd-run --quiet --collect -- "$@"
fi
setsid nohup "$@" </dev/null >/dev/null 2>&1 &
"""


class SshGuestChannel(SshChannel):
    """A `remote.GuestChannel` over one SSH connection.

    A connection that breaks raises GuestNotReady, a command that takes longer or prints too much GuestError.
    """

    def __init__(self, connection: SshConnection, subject: str) -> None:
        super().__init__(connection, lambda failure, _line: _command_error(subject, failure))
        self._subject = subject

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Begin a command that goes on when the connection ends. Raises GuestError."""
        done = self.execute(shlex.join([*prefix, "sh", "-c", _DETACH, "sh", *words]), START_SECONDS)
        if done.status != 0:
            said = done.as_text.stderr.strip().splitlines()
            raise GuestError(
                f"cannot start {words[0]} in the guest: {(said[-1] if said else f'status {done.status}')}",
                subject=self._subject,
                remedy="start it manually in the guest to see why",
            )


def _command_error(subject: str, failure: SshFailure) -> GuestError:
    match failure.problem:
        case SshProblem.LATE:
            remedy = "the command may still be running in the guest; check before you run it again"
            return GuestError(failure.said, subject=subject, remedy=remedy)
        case SshProblem.FLOOD:
            remedy = "check in the guest why the command's output is so large, or raise VGPU_CFG_ANSWER_MIB"
            return GuestError(failure.said, subject=subject, remedy=remedy)
        case _:
            remedy = (
                "check whether the guest is up and its SSH service is running; then run the same command "
                "again"
            )
            return GuestNotReady(failure.said, subject=subject, remedy=remedy)


def open_channel(endpoint: Endpoint, host_keys: GuestHostKeys) -> SshGuestChannel:
    """Log in once.

    Raises GuestNotReady where nothing listens or answers, and GuestError for everything else, the host key
    included.
    """

    def trust(client: paramiko.SSHClient) -> None:
        client.set_missing_host_key_policy(host_keys)

    try:
        connection = connect(endpoint, trust)
    except SshFailure as failure:
        raise _login_error(endpoint, failure) from failure
    return SshGuestChannel(connection, endpoint.subject)


def _login_error(endpoint: Endpoint, failure: SshFailure) -> GuestError:
    """Return the meaning of a failed login."""
    subject = endpoint.subject
    match failure.problem:
        case SshProblem.NOT_LET_IN:
            return GuestError(
                f"the guest rejects the login of {endpoint.user}: {failure.said}",
                subject=subject,
                remedy="check the user and the secret under `guest.login`; without one, vgpu-cfg uses the "
                "account it creates at first boot, which requires cloud-init in the template",
            )
        case SshProblem.NOTHING_TO_LOG_IN_WITH:
            return GuestError(
                "no credentials for login",
                subject=subject,
                remedy="set a secret with a password or a key under `guest.login`, or load a key into the "
                "SSH agent",
            )
        case SshProblem.LOCKED_KEY:
            return GuestError(
                "the private key has a passphrase",
                subject=subject,
                remedy=(
                    "use a key without one, or load it into the SSH agent and set no key under `guest.login`"
                ),
            )
        case SshProblem.NO_KEY:
            return GuestError(
                "the key secret specified in `guest.login` does not contain a private key",
                subject=subject,
                remedy="provide the full text of an OpenSSH or PEM private key: Ed25519, ECDSA, or RSA",
            )
        case SshProblem.UNRESOLVED:
            return GuestError(
                f"the name cannot be resolved: {failure.said}",
                subject=subject,
                remedy="set a HostName for the VM in the SSH configuration that this machine can resolve",
            )
        case SshProblem.REFUSED:
            return GuestNotReady(
                "no SSH service is listening",
                subject=subject,
                remedy="check whether the guest has booted and its SSH server is installed and enabled",
            )
        case SshProblem.SILENT:
            return GuestNotReady(
                f"no response within {endpoint.timeout_seconds:g} s",
                subject=subject,
                remedy="check whether the guest has booted and this machine can reach its network",
            )
        case _:
            return GuestNotReady(
                f"cannot be reached: {failure.said}",
                subject=subject,
                remedy="check whether the guest has booted and its SSH server responds on this port",
            )


class GuestHostKeys(paramiko.MissingHostKeyPolicy):
    """Checks the key that a guest shows. `public` are the accepted ones, "" if it has reported none."""

    def __init__(self, name: str, public: Sequence[str], known_hosts: Sequence[Path]) -> None:
        self._name = name
        self._public = [tuple(line.split()[:2]) for line in public if line]
        self._known_hosts = tuple(known_hosts)

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Return where the key is believed, else raise GuestError; paramiko's own signature."""
        del client
        if (key.get_name(), key.get_base64()) in self._public:
            return
        if any(_knows(path, hostname, key) for path in self._known_hosts):
            return
        shown = f"{key.get_name()} {fingerprint(key)}"
        compare = (
            "compare the fingerprint with the VM's console (`ssh-keygen -lf` of /etc/ssh/ssh_host_*_key.pub) "
            "and add the key to ~/.ssh/known_hosts"
        )
        if not self._public:
            raise GuestError(
                f"the guest has not reported a host key to vCenter, but presents {shown}",
                subject=f"{self._name} at {hostname}",
                remedy=f"check that VMware Tools is running in it, since it reports the key; or {compare}",
            )
        raise GuestError(
            f"the guest presents a host key that differs from the known one: {shown}",
            subject=f"{self._name} at {hostname}",
            remedy="another machine may use this address; if the guest's host key was regenerated, "
            f"{compare}; if it was set up with other plan keys, restore those "
            "(`training.keys`)",
        )


def _knows(path: Path, hostname: str, key: paramiko.PKey) -> bool:
    if not path.exists():
        return False
    try:
        return paramiko.HostKeys(str(path)).check(hostname, key)
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise GuestError(
            f"cannot be read: {error}", subject=str(path), remedy="fix the file, or move it elsewhere"
        ) from error
