"""The part of this program's environment that external commands get."""

from __future__ import annotations

import os
from collections.abc import Iterable

_LOGINS = ("VGPU_CFG_PASSWORD", "VGPU_CFG_TOKEN")
"""Logins of this program, which no other command is to have."""
_VARIABLE = "env:"
_secret: set[str] = set()
"""Variables that a plan file or the config file names for secrets."""


def keep_from_others(references: Iterable[str]) -> None:
    """Count the variables that references name as secret, for as long as this program runs."""
    _secret.update(one.removeprefix(_VARIABLE) for one in references if one.startswith(_VARIABLE))


def others_environment() -> dict[str, str]:
    """Return the environment without this program's logins and without variables that hold secrets."""
    return {name: value for name, value in os.environ.items() if name not in {*_LOGINS, *_secret}}
