"""The base of every value in this project: frozen, closed, comparable."""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import BaseModel, ConfigDict

FROM_FILE: Final = {"from_file": True}
"""The context of validating a person's text: there a value has the file's form, and null is none."""


class Frozen(BaseModel):
    """An immutable pydantic value; an unknown field is an error."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        ser_json_inf_nan="constants",
        json_schema_serialization_defaults_required=True,
        defer_build=True,
    )

    @classmethod
    def one_of_many(cls, **fields: Any) -> Self:
        """Make a value of which there may be thousands: which fields were given is held once for all."""
        made = cls(**fields)
        names = made.__pydantic_fields_set__
        # A frozen value never changes it, and a copy takes one of its own.
        object.__setattr__(made, "__pydantic_fields_set__", _GIVEN.setdefault(frozenset(names), names))
        return made


_GIVEN: dict[frozenset[str], set[str]] = {}
