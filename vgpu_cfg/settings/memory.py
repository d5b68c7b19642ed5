"""How long what a host's shell told is believed while the shell is closed, from `VGPU_CFG_MEMORY_DAYS`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from vgpu_cfg.settings.connection import unusable_variables


class MemorySettings(BaseSettings):
    """`VGPU_CFG_MEMORY_DAYS`: what was read longer ago is not known any more; with 0 nothing is believed."""

    model_config = SettingsConfigDict(env_prefix="VGPU_CFG_", env_ignore_empty=True, extra="ignore")

    memory_days: Annotated[int, Field(ge=0, le=3650)] = 30


def memory_days() -> int:
    """Return for how many days memory holds. Raises DocumentError for a variable that cannot be used."""
    try:
        return MemorySettings().memory_days
    except ValidationError as error:
        raise unusable_variables(error, "VGPU_CFG_") from error
