"""Until when a token holds, where it says so itself: the claim `exp` of a JSON Web Token (RFC 7519).

NVIDIA's client configuration tokens are such (public programs that read or issue them); a registry's may be.
"""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime


def expiry_of(text: str) -> datetime | None:
    """Return when a token expires; None for a text that is no such token, or that names no end."""
    parts = text.strip().split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return datetime.fromtimestamp(claims["exp"], UTC)
    except (ValueError, KeyError, TypeError, OverflowError, OSError, RecursionError):
        return None
