"""What a run is made for, as `--change` and `--reason` say it; it loads nothing, so that --help is quick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONGEST_CHANGE: Final = 64
LONGEST_REASON: Final = 240
"""vCenter's reference names no limit for the text of an event; with these an entry has some 900 signs."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """What a run is made for: the id of a change as the site's own system names it, and why, in words."""

    change: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """Both on one line, "" where neither was said."""
        return ": ".join(part for part in (self.change, self.reason) if part)


NO_OCCASION: Final = Occasion()


def fault_of(text: str, longest: int) -> str:
    """Say what is wrong with a text that was given for an occasion, "" where nothing is.

    It goes into logs that are read line by line.
    """
    if not text.strip():
        return "it is empty"
    if not text.isprintable():
        return "it contains a line break or another non-printable character"
    if len(text) > longest:
        return f"it has {len(text)} characters; the limit is {longest}"
    return ""
