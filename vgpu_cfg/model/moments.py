"""Times in texts of other users or programs: UTC if they have no time zone; None if invalid.

Python's datetimes that name a zone cannot be compared with those that do not, and those at the ends of the
calendar cannot be shown in another zone.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

from pydantic import AfterValidator

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
