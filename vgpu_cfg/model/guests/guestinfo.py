"""Text in guestinfo: its encoding, and the size that fits."""

from __future__ import annotations

import base64
import gzip

MOST_BYTES = 65_535
"""A guestinfo value as stored, after gzip and base64 (vm-operator #148; open-vm-tools guest_msg_def.h)."""

LEAST_OWN_BYTES = 8_500
"""The least that staging adds to a guest's own user data, packed."""


def pack(text: str) -> str:
    """Return text as gzip and base64; the same text gives the same bytes."""
    return base64.b64encode(gzip.compress(text.encode(), compresslevel=9, mtime=0)).decode()
