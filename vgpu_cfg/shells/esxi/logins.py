"""Logins to hosts' shells: accounts, credentials, and the wait for a service that just started."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import tenacity

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.shells.channel import opened
from vgpu_cfg.shells.esxi.shell import EsxiShell

ATTEMPTS = 6
"""Waits of 0.5, 1, 2, 4 and 5 s lie between them: 12.5 s for a service to begin to listen."""


class EsxiShells:
    """Logs in to ESXi hosts by SSH, as `ports.HostShells`.

    secrets: the values of the names in `access`; all other input comes from files.
    pinned: this tool's own known_hosts file, in its state folder; first keys are written there.
    known_hosts: additional files to read; the user's own by default.
    ssh_config: an OpenSSH configuration whose HostName, Port, User and IdentityFile are honoured. Its User
        counts only if the plan file keeps the default, root.
    timeout_seconds: for the connection, the greeting and the login, each.
    limits: how much a command may print.
    calls: the file that lists logins and commands.
    """

    def __init__(  # noqa: PLR0913 - how to log in to any host
        self,
        secrets: Mapping[str, str],
        pinned: Path,
        *,
        known_hosts: Sequence[Path] | None = None,
        ssh_config: Path | None = None,
        timeout_seconds: float = 15.0,
        limits: Limits | None = None,
        sleep: Callable[[float], None] = tenacity.nap.sleep,
        calls: Path | None = None,
    ) -> None:
        self._secrets = secrets
        self._pinned = pinned
        self._known_hosts = (
            tuple(known_hosts) if known_hosts is not None else (Path.home() / ".ssh" / "known_hosts",)
        )
        self._ssh_config = ssh_config
        self._timeout_seconds = timeout_seconds
        self._limits = limits or Limits()
        self._sleep = sleep
        self._calls = calls

    def connect(self, host_name: str, access: AccessEntry) -> EsxiShell:
        """Log in, as the plan file says.

        If the plan file lets the SSH service be started for the work, one that does not answer yet is tried
        again, for some seconds; a refused key or login never is.
        Raises HostShellError.
        """
        from vgpu_cfg.shells.esxi.ssh import ConnectionRefused, Login, open_channel
        from vgpu_cfg.shells.ssh import Endpoint, options_for, secret_value

        if access.ssh == "off":
            raise HostShellError(
                "the plan file does not allow access to the host's shell",
                subject=host_name,
                remedy="set `ssh: on` or `ssh: open-and-close` in `access`, or perform the step manually",
            )
        options = options_for(host_name, self._ssh_config, HostShellError)
        is_default_user = access.user == AccessEntry().user
        login = Login(
            Endpoint(
                host=options.host,
                user=(options.user if is_default_user else None) or access.user,
                port=options.port,
                password=secret_value(self._secrets, access.password, host_name, HostShellError),
                key=secret_value(self._secrets, access.key, host_name, HostShellError),
                key_files=options.key_files,
                timeout_seconds=self._timeout_seconds,
                limits=self._limits,
            ),
            pinned=self._pinned,
            known_hosts=self._known_hosts,
            policy=access.host_keys,
        )
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(ConnectionRefused),
            stop=tenacity.stop_after_attempt(ATTEMPTS if access.ssh == "open-and-close" else 1),
            wait=tenacity.wait_exponential(multiplier=0.5, max=5),
            sleep=self._sleep,
            reraise=True,
        )
        channel = opened(self._calls, host_name, "ssh", lambda: retrying(open_channel, login))
        return EsxiShell(channel, host_name)
