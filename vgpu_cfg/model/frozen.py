"""The base of every value in this project: frozen, closed, comparable."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

FROM_FILE: Final = {"from_file": True}
"""The context of validating what a person wrote: there a value has the file's form, and null is none."""


class Frozen(BaseModel):
    """An immutable pydantic value; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants", defer_build=True)
