"""The occasion of a run (`--change`, `--reason`); it imports nothing, so that --help is fast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

LONGEST_CHANGE: Final = 64
LONGEST_REASON: Final = 240
"""vCenter's reference names no limit for the text of an event; with these an entry has some 900 signs."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The occasion of a run: the ID of a change in the site's own system, and the reason, in words."""

    change: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """Both on one line, "" where neither was said."""
        return ": ".join(part for part in (self.change, self.reason) if part)


NO_OCCASION: Final = Occasion()


def fault_of(text: str, longest: int) -> str:
    """Return the error in the text of an occasion; "" if there is none.

    It goes into logs that are read line by line.
    """
    if not text.strip():
        return "it is empty"
    if not text.isprintable():
        return "it contains a line break or another non-printable character"
    if len(text) > longest:
        return f"it has {len(text)} characters; the limit is {longest}"
    return ""
