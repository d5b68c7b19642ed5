"""The places of this tool's files on the user's machine, each movable by an environment variable."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from vgpu_cfg.errors import DocumentError, DocumentFault

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
