"""How long what a host's shell told is believed while the shell is closed, from `VGPU_CFG_REMEMBER_DAYS`."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from vgpu_cfg.settings.connection import unusable_variables


class RememberSettings(BaseSettings):
    """`VGPU_CFG_REMEMBER_DAYS`: what was read longer ago is not known any more; with 0 nothing is."""

    model_config = SettingsConfigDict(env_prefix="VGPU_CFG_", env_ignore_empty=True, extra="ignore")

    remember_days: Annotated[int, Field(ge=0, le=3650)] = 30


def remember_days() -> int:
    """Return for how many days it is believed. Raises DocumentError for a variable that cannot be used."""
    try:
        return RememberSettings().remember_days
    except ValidationError as error:
        raise unusable_variables(error, "VGPU_CFG_") from error
