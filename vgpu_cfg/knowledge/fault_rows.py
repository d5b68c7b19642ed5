"""The shape of a row of the table of known failures."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property


class Confidence(StrEnum):
    """How a row is known."""

    SEEN = "seen"
    """Read in a vendor's document, or reported from the field."""
    INFERRED = "inferred"
    """Follows from a documented rule; the wording is recalled."""


@dataclass(frozen=True)
class FaultRow:
    """A failure that is known by one of `patterns` (any case, any white space) or a fault's type.

    `sample` is a typical text, `symptom` describes the visible effect in a few words, `check` is the proof: a
    command or a place, and its output then, each a line of its own. Names in capitals are to be filled in.
    `source` names the document or the report of the row. `words` are others that people use for it.
    `is_general` rows are vague and rank after any other. `kernel` are patterns of lines of a guest's
    kernel log that prove a fault of the machine; verify fails on them. `is_verbatim` rows are never found by
    likeness.
    """

    key: str
    patterns: tuple[str, ...]
    sample: str
    symptom: str
    cause: str
    check: tuple[str, ...]
    remedy: str
    source: str
    confidence: Confidence = Confidence.SEEN
    faults: frozenset[str] = frozenset()
    words: str = ""
    is_general: bool = False
    kernel: tuple[str, ...] = ()
    is_verbatim: bool = False

    @cached_property
    def _regex(self) -> re.Pattern[str]:
        return any_of(self.patterns)

    def matches(self, text: str) -> bool:
        """Whether the text shows this failure; its quotes are plain ones."""
        return self._regex.search(text) is not None


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return the patterns as one; a space is any white space, and none where it is optional."""
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(joined.replace(" ?", r"\s*").replace(" ", r"\s+"), re.IGNORECASE)
