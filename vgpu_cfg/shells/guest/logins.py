"""SSH logins to guests: accounts, credentials, and the addresses to try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.model.guests.modules import UsersModule
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import GuestShell, GuestTarget
from vgpu_cfg.shells.call_log import opened
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.shells.root import RootShell
from vgpu_cfg.shells.ssh import DEFAULT_PORT, Endpoint, HostOptions, options_for, secret_value

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
        from vgpu_cfg.shells.guest.ssh import GuestHostKeys, open_channel

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
        "the address of the guest is not known yet",
        subject=target.name,
        remedy="VMware Tools in the guest reports it; or set `ip` on a NIC of the VM in the plan file, or "
        "a HostName for the VM in the SSH configuration",
    )
