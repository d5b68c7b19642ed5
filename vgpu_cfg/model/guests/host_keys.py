"""Which ssh host key a guest is known by: the one that it made and told, or one that was made beforehand.

A guest makes its host key at its first boot and reports the public half; the run keeps that on the VM. Guests
that were given a derived key, by an earlier release or because their secrets are exposed, keep it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vgpu_cfg.model.guests.base import ModuleBase

HOST_KEY_KEY = "vgpu_cfg.guest.host_key"
"""The extraConfig key of the public host key that a guest has told; no guest can write it."""

AWAITED = "awaited"
"""What stands there from the clone on, until the guest has told its key."""

DERIVED = "derived"
"""Stands for the key that follows from the plan's seed and the VM's name."""

UNKNOWN = ""
"""Stands for a key that nobody knows yet."""

TO_COME = "to come"
"""Stands for a key that the guest tells in the run that is being planned."""

_PUBLIC_KEY = re.compile(
    r"(ssh-ed25519|ssh-rsa|ecdsa-sha2-nistp(256|384|521)) [A-Za-z0-9+/]{40,1400}={0,2}", re.ASCII
)


def is_host_key(text: str) -> bool:
    """Whether a text is a public host key, as one line of two words, and nothing besides."""
    return _PUBLIC_KEY.fullmatch(text) is not None


def kept_host_key(settings: Mapping[str, str], *, is_staged: bool, is_exposed: bool) -> str:
    """Return by which host key a VM's guest is known: a public key, DERIVED or UNKNOWN.

    `settings` is the VM's extraConfig, `is_staged` whether it has a mark: it was made
    for a plan, or staged.
    """
    kept = settings.get(HOST_KEY_KEY, "")
    if is_host_key(kept):
        return kept
    return DERIVED if is_exposed or (is_staged and not kept) else UNKNOWN


def host_keys_fingerprint(module: ModuleBase, host_keys: Mapping[str, str]) -> str:
    """Return eight hex digits over the host keys that a module writes; "" where none is but derived ones."""
    words = [
        f"{name}={key}" for name in module.host_keys_of if (key := host_keys.get(name, UNKNOWN)) != DERIVED
    ]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:8] if words else ""
