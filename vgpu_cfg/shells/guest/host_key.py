"""Whose host key is believed of a guest: the one derived for the plan, or one that the user vouches for.

The plan's own key of the VM is known before the guest has ever booted, so no first key is ever taken on
trust. A guest that this tool has not set up yet shows the key of its template: then the user's known_hosts
decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import paramiko

from vgpu_cfg.errors import GuestError
from vgpu_cfg.shells.ssh import fingerprint


class GuestHostKeys(paramiko.MissingHostKeyPolicy):
    """Checks the key that a guest shows. `public` is the plan's own of that VM, in OpenSSH's form."""

    def __init__(self, name: str, public: str, known_hosts: Sequence[Path]) -> None:
        self._name = name
        self._public = tuple(public.split()[:2])
        self._known_hosts = tuple(known_hosts)

    def missing_host_key(self, client: paramiko.SSHClient, hostname: str, key: paramiko.PKey) -> None:
        """Return where the key is believed, else raise GuestError; paramiko's own signature."""
        del client
        if (key.get_name(), key.get_base64()) == self._public:
            return
        if any(_knows(path, hostname, key) for path in self._known_hosts):
            return
        raise GuestError(
            f"the guest shows a host key that is not the plan's: {key.get_name()} {fingerprint(key)}",
            subject=f"{self._name} at {hostname}",
            remedy="if this tool has not set the guest up yet, compare the fingerprint with the VM's console "
            "(`ssh-keygen -lf` of /etc/ssh/ssh_host_*_key.pub) and add the key to ~/.ssh/known_hosts; else "
            "another machine may have this address, or the plan's keys (`training.keys`) have changed",
        )


def _knows(path: Path, hostname: str, key: paramiko.PKey) -> bool:
    if not path.exists():
        return False
    try:
        return paramiko.HostKeys(str(path)).check(hostname, key)
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise GuestError(
            f"cannot be read: {error}", subject=str(path), remedy="fix the file, or move it away"
        ) from error
