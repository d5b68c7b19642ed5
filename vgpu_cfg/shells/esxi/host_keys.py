"""Whose host key is believed: one from a known_hosts file, or a first one where the plan file says so.

A key that differs from the known one is never taken, whatever the plan file says. First keys are written
to a file of this tool's own, never to the user's.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import paramiko

from vgpu_cfg.documents import PRIVATE, append_whole, make_private_folder
from vgpu_cfg.errors import HostShellError
from vgpu_cfg.shells.ssh import fingerprint

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
        f"the host's key has changed: known key {known.get_name()} {fingerprint(known)}, presented key "
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
