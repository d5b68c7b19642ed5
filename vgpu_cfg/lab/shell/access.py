"""Access to a host's shell, and its obstacles: host, service, firewall, lockdown mode.

Lockdown mode keeps root out whatever the password; exception users are none in the lab.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab.shell.shell import LabShell, is_reachable
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host

SERVICE = "TSM-SSH"
"""Key of the SSH service in `host.config.service` (recorded host dumps)."""

RULESET = "sshServer"
ROOT = "root"


@dataclass(frozen=True, slots=True)
class ShellAccess:
    """The credentials of root: a password (None: any that is not empty), and keys, as in `known_hosts`."""

    password: str | None = None
    keys: Collection[str] = ()

    def takes_password(self, host: Host, user: str, password: str) -> bool:
        """Whether a password opens a host's shell."""
        is_right = bool(password) if self.password is None else password == self.password
        return is_right and user == ROOT and is_unlocked(host)

    def takes_key(self, host: Host, user: str, key: str) -> bool:
        """Whether a key does, given as `ssh-ed25519 AAAA…`."""
        return key in self.keys and user == ROOT and is_unlocked(host)


ANY_PASSWORD = ShellAccess()


def is_unlocked(host: Host) -> bool:
    """Whether root may log in to the host itself."""
    return host.lockdown == "lockdownDisabled"


def why_closed(host: Host) -> str | None:
    """Return why a host's SSH port does not answer, None if it does."""
    if not is_reachable(host):
        return "connection timed out"
    service, ruleset = host.services.get(SERVICE), host.rulesets.get(RULESET)
    if ruleset is not None and not ruleset.enabled:
        return "connection timed out"
    return None if service is not None and service.running else "connection refused"


def open_shell(
    lab: Simulation,
    host_name: str,
    user: str = ROOT,
    *,
    password: str = "",
    key: str = "",
    access: ShellAccess = ANY_PASSWORD,
) -> LabShell:
    """Log in to a host's shell by its name, with a password or a public key. Raises HostShellError."""
    with lab.transaction():
        host = next((host for host in lab.state.all(Host) if host.name == host_name), None)
        if host is None:
            raise HostShellError(
                "the host's name is unknown", subject=host_name, remedy="see `vgpu-cfg inventory`"
            )
        closed = why_closed(host)
        if closed is not None:
            raise HostShellError(
                closed,
                subject=f"{host_name}:22",
                remedy=f"check that the host is up and its service {SERVICE} is running",
            )
        if not access.takes_password(host, user, password) and not access.takes_key(host, user, key):
            raise HostShellError(
                f"the login of {user} was rejected",
                subject=f"{host_name}:22",
                remedy="check the password, and whether the host is in lockdown mode",
            )
        return LabShell(lab, host)
