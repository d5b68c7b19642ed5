"""Settings that only variables of the environment hold (`VGPU_CFG_…`), and the reporting of invalid ones."""

from __future__ import annotations

import os
from typing import Annotated, Literal, TypeVar

from pydantic import AwareDatetime, Field, ValidationError

from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.frozen import Frozen

Settings = TypeVar("Settings", bound=Frozen)


def read_variables(settings: type[Settings], prefix: str) -> Settings:
    """Read each field from the variable of its name in capitals, after the prefix; an empty one is none.

    Raises DocumentError for variables that cannot be used: each is a document of one line.
    """
    stated = {
        name: value for name in settings.model_fields if (value := os.environ.get(f"{prefix}{name.upper()}"))
    }
    try:
        return settings.model_validate(stated)
    except ValidationError as error:
        faults = [
            DocumentFault(
                f"{prefix}{fault['loc'][0]!s}".upper(), 1, 1, fault["msg"], "correct it, or unset it"
            )
            for fault in error.errors(include_url=False, include_input=False)
        ]
        raise DocumentError(faults, remedy="correct the variables, or unset them") from error


class LabSettings(Frozen):
    """How the lab behaves: `VGPU_CFG_LAB_*`.

    `speed` is how many lab seconds pass in a real one, 0 for a virtual clock that never waits;
    `gpu_choice` is how the simulated ESXi picks a GPU at power-on, `seed` feeds "random". A custom
    attribute's value is cut off after `attribute_length` characters; None keeps all of it. A run begins at
    `time`, in a window that is not open yet for example, and on a virtual clock only the lab's time passes.
    """

    speed: Annotated[float, Field(ge=0)] = 20.0
    gpu_choice: Literal["least_loaded", "lowest", "random"] = "least_loaded"
    seed: int = 0
    time: AwareDatetime | None = None
    attribute_length: Annotated[int, Field(ge=1)] | None = None


def lab_settings() -> LabSettings:
    """Read the lab's settings. Raises DocumentError for a variable that cannot be used."""
    return read_variables(LabSettings, "VGPU_CFG_LAB_")


class RememberSettings(Frozen):
    """`VGPU_CFG_REMEMBER_DAYS`: older readings are no longer known; with 0 none are."""

    remember_days: Annotated[int, Field(ge=0, le=3650)] = 30


def remember_days() -> int:
    """Return for how many days it is believed. Raises DocumentError for a variable that cannot be used."""
    return read_variables(RememberSettings, "VGPU_CFG_").remember_days
