"""The lifetime of a host's shell facts while the shell is closed, from `VGPU_CFG_REMEMBER_DAYS`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.settings.variables import read_variables


class RememberSettings(Frozen):
    """`VGPU_CFG_REMEMBER_DAYS`: older readings are no longer known; with 0 none are."""

    remember_days: Annotated[int, Field(ge=0, le=3650)] = 30


def remember_days() -> int:
    """Return for how many days it is believed. Raises DocumentError for a variable that cannot be used."""
    return read_variables(RememberSettings, "VGPU_CFG_").remember_days
