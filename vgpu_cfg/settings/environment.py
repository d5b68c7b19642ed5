"""The user's environment: the places of this tool's files, each movable, and what external commands get."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import platformdirs

from vgpu_cfg.errors import DocumentError, DocumentFault

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


APP_NAME = "vgpu-cfg"


def state_folder() -> Path:
    """Return the folder for journals, locks and the lab's memory (VGPU_CFG_STATE_FOLDER).

    Raises DocumentError for `~` of a user without a home.
    """
    return _folder("VGPU_CFG_STATE_FOLDER", platformdirs.user_state_path(APP_NAME))


def config_file() -> Path:
    """Return the file with the named contexts (VGPU_CFG_CONFIG); it need not exist."""
    return _folder("VGPU_CFG_CONFIG", platformdirs.user_config_path(APP_NAME) / "config.yaml")


def _folder(variable: str, default: Path) -> Path:
    value = os.environ.get(variable, "")
    try:
        return Path(value).expanduser() if value else default
    except RuntimeError as error:
        fault = DocumentFault(variable, 1, 1, f"cannot determine the home folder for {value!r}")
        raise DocumentError([fault], remedy="use the full path, or unset the variable") from error
