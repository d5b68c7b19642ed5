"""How the lab behaves, from `VGPU_CFG_LAB_*`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.settings.variables import read_variables


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
