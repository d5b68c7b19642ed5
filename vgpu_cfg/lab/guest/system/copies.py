"""The copies that cloud-init keeps of its user data, readable by root alone.

Source: cloud-init's source: `Paths` and `ud_proc` of 24.x, and `get_runpath("combined_cloud_config")`.
"""

from __future__ import annotations

import json

from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.state.guest import Guest

_LASTING = ("user-data.txt", "cloud-config.txt")
_RUNNING = tuple(
    f"/run/cloud-init/{name}.json" for name in ("combined-cloud-config", "instance-data-sensitive")
)


def keep_copies(guest: Guest, instance: str, text: str, now: float) -> None:
    """Write cloud-init's copies of its user data, in the instance's folder and below /run."""
    for name in _LASTING:
        files.write(
            guest,
            f"/var/lib/cloud/instances/{instance}/{name}",
            text.encode(),
            mode=0o600,
            now=now,
            parents=True,
        )
    for path in _RUNNING:
        content = json.dumps({"userdata": text}).encode()
        files.write(guest, path, content, mode=0o600, now=now, parents=True)


def forget_copies(guest: Guest, now: float) -> None:
    """Empty them, as the stage command does when cloud-init's run of it ends."""
    for path in guest.files:
        if path in _RUNNING:
            files.write(guest, path, b"{}\n", mode=0o600, now=now)
        elif path.startswith("/var/lib/cloud/instances/"):
            files.write(guest, path, b"", mode=0o600, now=now)
