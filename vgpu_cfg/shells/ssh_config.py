"""What the user's own OpenSSH configuration says of a machine: its address, port, user and key files.

Of all the options these four are honoured; a jump host is refused rather than left out, since without
it another machine might answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import paramiko

from vgpu_cfg.errors import ReachError
from vgpu_cfg.shells.ssh import DEFAULT_PORT

_NOT_HONOURED = ("proxyjump", "proxycommand")


@dataclass(frozen=True, slots=True)
class HostOptions:
    """What the configuration says of one host; `user` None where it says none."""

    host: str
    port: int = DEFAULT_PORT
    user: str | None = None
    key_files: tuple[str, ...] = ()


def options_for(host_name: str, path: Path | None, failure: type[ReachError]) -> HostOptions:
    """Look a machine up in an OpenSSH configuration file; without one, its name stands.

    Raises `failure` where the file cannot be read, or asks for a jump host.
    """
    if path is None or not path.exists():
        return HostOptions(host_name)
    try:
        found = paramiko.SSHConfig.from_path(str(path)).lookup(host_name)
        port = int(found.get("port", DEFAULT_PORT))
    except (OSError, ValueError, ImportError, paramiko.SSHException) as error:
        raise failure(
            f"cannot be read: {error}",
            subject=str(path),
            remedy="fix the file, or name no SSH configuration",
        ) from error
    jump = next((name for name in _NOT_HONOURED if found.get(name, "none") not in (None, "none")), None)
    if jump is not None:
        raise failure(
            f"asks for {jump} to reach {host_name}, which is not supported",
            subject=str(path),
            remedy="run this tool where the host can be reached directly",
        )
    return HostOptions(
        host=found.get("hostname", host_name),
        port=port,
        user=found.get("user"),
        # As OpenSSH does: a key file that is not there is left out.
        key_files=tuple(file for file in found.get("identityfile", ()) if Path(file).is_file()),
    )
