"""How a page says when: in UTC, since it is read elsewhere and later."""

from __future__ import annotations

from datetime import UTC, datetime


def moment_words(moment: datetime) -> str:
    """Say a moment to the minute."""
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M UTC}"
