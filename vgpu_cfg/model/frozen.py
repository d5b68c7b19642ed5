"""The base of every value in this project (frozen, closed, comparable), and of its times.

Times in texts of other users or programs are UTC if they have no time zone. Python's datetimes that name a
zone cannot be compared with those that do not, and those at the ends of the calendar cannot be shown in
another zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Self

from pydantic import AfterValidator, BaseModel, ConfigDict

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


_FIRST, _LAST = 1970, 9000
"""The years that are considered intentional; every time zone can represent them."""


def moment_of(text: str) -> datetime | None:
    """Read a time, None where the text is none."""
    try:
        return in_utc(datetime.fromisoformat(text))
    except ValueError:
        return None


def in_utc(moment: datetime) -> datetime:
    """Return a time in UTC. Raises ValueError for one of no year that anything happened in."""
    if not _FIRST <= moment.year <= _LAST:
        raise ValueError(f"{moment.year} is not a valid year")
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


Moment = Annotated[datetime, AfterValidator(in_utc)]
"""A field whose value other users or programs wrote."""
