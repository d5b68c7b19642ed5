"""How long what a host's shell told is believed while the shell is closed, from `VGPU_CFG_REMEMBER_DAYS`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.settings.variables import read_variables


class RememberSettings(Frozen):
    """`VGPU_CFG_REMEMBER_DAYS`: what was read longer ago is not known any more; with 0 nothing is."""

    remember_days: Annotated[int, Field(ge=0, le=3650)] = 30


def remember_days() -> int:
    """Return for how many days it is believed. Raises DocumentError for a variable that cannot be used."""
    return read_variables(RememberSettings, "VGPU_CFG_").remember_days
