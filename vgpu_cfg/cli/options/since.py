"""The value of `--since` and `--hours`: a duration back, or a start day."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import typer

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,5})([mhdw])")


def age_of(text: str, option: str = "--since") -> timedelta:
    """Read how long ago something may be: a number with its unit, or a day. Raises BadParameter."""
    if (found := _AGE.fullmatch(text)) is not None:
        return timedelta(**{_UNITS[found[2]]: int(found[1])})
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        message = f"{text!r} is neither a period such as 7d, 12h or 2w nor a date such as 2026-11-01"
        raise typer.BadParameter(message, param_hint=option) from error
    age = datetime.now(UTC) - moment.astimezone()
    if age < timedelta():
        raise typer.BadParameter(f"{text} is in the future", param_hint=option)
    return age
