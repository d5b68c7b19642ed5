"""The base of every value in the house: frozen, closed, comparable."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """An immutable pydantic value; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="constants")
