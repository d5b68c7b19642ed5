"""Whose host key is believed of a guest: the one that it has told vCenter, or one that the user vouches for.

No first key is ever taken on trust. A guest that has told none, as one that this tool has not set up yet or
whose VMware Tools do not run, is let pass by the user's known_hosts alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import paramiko

from vgpu_cfg.errors import GuestError
from vgpu_cfg.shells.ssh import fingerprint


class GuestHostKeys(paramiko.MissingHostKeyPolicy):
    """Checks the key that a guest shows. `public` are those it may be known by, "" where it has told none."""

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
                f"the guest has told vCenter no host key, and shows {shown}",
                subject=f"{self._name} at {hostname}",
                remedy=f"see that VMware Tools run in it, by which it tells its key; or {compare}",
            )
        raise GuestError(
            f"the guest shows another host key than the one it is known by: {shown}",
            subject=f"{self._name} at {hostname}",
            remedy="another machine may have this address; if the guest's host key was made anew, "
            f"{compare}; if it was set up with other keys of the plan, bring those back (`training.keys`)",
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
