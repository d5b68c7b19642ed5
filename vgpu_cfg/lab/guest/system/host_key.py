"""The ssh host key of a guest: made by cloud-init at a first boot, or by ssh-keygen, and shown by sshd."""

from __future__ import annotations

import hashlib

from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.state.guest import Guest

PRIVATE = "/etc/ssh/ssh_host_ed25519_key"
PUBLIC = f"{PRIVATE}.pub"


def make_host_key(guest: Guest, seed: str, now: float) -> None:
    """Give a guest an ed25519 host key in the place of any that it had; the same seed gives the same."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    key = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(seed.encode()).digest())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
    files.write(guest, PRIVATE, private, mode=0o600, now=now, parents=True)
    files.write(guest, PUBLIC, public + f" root@{guest.host_name}\n".encode(), now=now, parents=True)


def told_host_key(guest: Guest) -> str:
    """Return the public host key without its comment, "" where there is none."""
    found = guest.files.get(PUBLIC)
    return " ".join(found.content.split()[:2]) if found is not None else ""
