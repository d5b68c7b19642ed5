"""What a command that somebody else wrote gets of this program's environment."""

from __future__ import annotations

import os

_LOGINS = ("VGPU_CFG_PASSWORD", "VGPU_CFG_TOKEN")
"""Logins of this program, which no other command is to have."""


def others_environment() -> dict[str, str]:
    """Return the environment without this program's logins."""
    return {name: value for name, value in os.environ.items() if name not in _LOGINS}
