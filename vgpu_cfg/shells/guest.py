"""The shell of a guest over SSH: accounts, addresses to try, trusted host keys, and failed logins.

The trusted host key is the one that a guest has reported to vCenter, or one in the user's known_hosts. No
first key is ever taken on trust. A guest that has reported none, as one that this tool has not set up yet or
whose VMware Tools do not run, is accepted by the user's known_hosts alone.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import paramiko

from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.model.guests.modules import UsersModule
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import GuestShell, GuestTarget
from vgpu_cfg.shells.channel import opened
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.shells.root import RootShell
from vgpu_cfg.shells.ssh import (
    DEFAULT_PORT,
    Endpoint,
    HostOptions,
    SshChannel,
    SshConnection,
    SshFailure,
    SshProblem,
    connect,
    fingerprint,
    options_for,
    secret_value,
)

OWN_USER: str = UsersModule.model_fields["machine_user"].default
"""The account that this tool makes for itself."""


class SshGuestShells:
    """Logs in to guests by SSH, as `ports.GuestShells`.

    keys: the plan's own; the login if the plan file names none, and host keys that guests did not make.
    secrets: the values of the names in a login.
    known_hosts: additional files with trusted host keys; the user's own by default.
    ssh_config: an OpenSSH configuration whose HostName, Port and IdentityFile are honoured, looked up by the
        VM's name, then by its addresses.
    timeout_seconds: for the connection, the greeting and the login, each.
    limits: how much a command may print.
    calls: the file that lists logins and commands.
    """

    def __init__(
        self,
        keys: PlanKeyRing,
        secrets: Mapping[str, str],
        *,
        known_hosts: Sequence[Path] | None = None,
        ssh_config: Path | None = None,
        timeout_seconds: float = 10.0,
        limits: Limits | None = None,
        calls: Path | None = None,
    ) -> None:
        self._keys = keys
        self._secrets = secrets
        self._known_hosts = (
            tuple(known_hosts) if known_hosts is not None else (Path.home() / ".ssh" / "known_hosts",)
        )
        self._ssh_config = ssh_config
        self._timeout_seconds = timeout_seconds
        self._limits = limits or Limits()
        self._calls = calls

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        """Log in at the first address that is the guest's. Raises GuestError.

        GuestNotReady where no address answers, or none is known yet.
        """
        public = [ring.public_host_key(target.name, target.host_key) for ring in self._keys.by_age()]
        host_keys = GuestHostKeys(target.name, public, self._known_hosts)
        failures: list[GuestError] = []
        for options in self._places(target):
            for endpoint in self._endpoints(target, login, options):
                try:
                    log_in = partial(open_channel, endpoint, host_keys)
                    channel = opened(self._calls, target.name, "ssh", log_in)
                    shell = RootShell(channel, target.name, endpoint.user)
                    shell.check_rights()
                except GuestNotReady as error:
                    failures.append(error)
                    break
                except GuestError as error:
                    failures.append(error)
                else:
                    return shell
        # An address may be old, or another network's: what a guest has said counts more than silence.
        telling = [error for error in failures if not isinstance(error, GuestNotReady)]
        raise (telling or failures or [_no_address(target)])[0]

    def _places(self, target: GuestTarget) -> Iterator[HostOptions]:
        named = options_for(target.name, self._ssh_config, GuestError)
        if named.host != target.name:
            yield named
            return
        for address in target.addresses:
            yield options_for(address, self._ssh_config, GuestError)

    def _endpoints(self, target: GuestTarget, login: LoginEntry, options: HostOptions) -> Iterator[Endpoint]:
        """Yield the ways to log in at one place: with the plan's own key, then with those before it."""
        password = secret_value(self._secrets, login.password, target.name, GuestError)
        key = secret_value(self._secrets, login.key, target.name, GuestError)
        own = (ring.login_key().private for ring in self._keys.by_age())
        for one in (key,) if login.user else own:
            yield Endpoint(
                host=options.host,
                user=login.user or OWN_USER,
                port=options.port if login.port == DEFAULT_PORT else login.port,
                # A key goes first; sshd may count a wrong password against the account.
                password=password if login.user and one is None else None,
                key=one,
                key_files=options.key_files,
                timeout_seconds=self._timeout_seconds,
                limits=self._limits,
            )


def _no_address(target: GuestTarget) -> GuestNotReady:
    return GuestNotReady(
        "the guest's address is not known yet",
        subject=target.name,
        remedy="wait until VMware Tools reports it, set `ip` on one of the VM's NICs in the plan file, or "
        "set HostName for the VM in the SSH configuration",
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
                f"the guest rejected {endpoint.user}'s login: {failure.said}",
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
                    "use a key without a passphrase, or load it into the SSH agent and do not set a key "
                    "under `guest.login`"
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
                remedy="check that VMware Tools, which reports the key, is running in the guest; or "
                f"{compare}",
            )
        raise GuestError(
            f"the guest presents a host key that differs from the known one: {shown}",
            subject=f"{self._name} at {hostname}",
            remedy="another machine may use this address. If the guest's host key was regenerated, "
            f"{compare}. If the guest was set up with other plan keys, restore those keys "
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
