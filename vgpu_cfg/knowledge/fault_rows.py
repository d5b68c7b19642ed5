"""The shape of a row of the table of known failures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

_PART = re.compile(r"\((?:\?(?:[:=!]|<[=!]))?|\\.|\[\^?\]?(?:\\.|[^\]])*\]|\{[^}]*\}|.", re.DOTALL)
"""A part of a pattern: how a group begins, a character with its escape, a class, or how often it is."""


class Confidence(StrEnum):
    """How a row is known."""

    SEEN = "seen"
    """Read in a vendor's document, or reported from the field."""
    INFERRED = "inferred"
    """Follows from a documented rule; the wording is recalled."""


@dataclass(frozen=True, eq=False)
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

    @cached_property
    def sure_words(self) -> frozenset[str]:
        """Words in lower case, of which every text that matches contains one."""
        return _sure_words(iter(_PART.findall("|".join(self.patterns).lower())))

    def matches(self, text: str) -> bool:
        """Whether the text shows this failure; its quotes are plain ones."""
        return self._regex.search(text) is not None


def _sure_words(parts: Iterator[str]) -> frozenset[str]:
    """Return words of which every match of a group contains one; "" if none is certain."""
    found, items, run = frozenset[str](), [frozenset({""})], ""
    for part in parts:
        if part.isalnum() or part == "_":
            run += part
            continue
        is_repeated = part[0] in "?*{"
        if run:
            items.append(frozenset({run[:-1] if is_repeated else run}))
        elif is_repeated:
            items.pop()
        run = ""
        if part[0] == "(":
            group = _sure_words(parts)
            items.append(group if part in ("(", "(?:") else frozenset({""}))
        elif part in ("|", ")"):
            found, items = found | _longest(items), [frozenset({""})]
            if part == ")":
                return found
        else:
            items.append(frozenset({""}))
    return found | _longest([*items, frozenset({run})])


def _longest(items: Sequence[frozenset[str]]) -> frozenset[str]:
    return max(items, key=lambda words: min(map(len, words)))


def any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """Return the patterns as one; a space is any white space, and none where it is optional."""
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    return re.compile(joined.replace(" ?", r"\s*").replace(" ", r"\s+"), re.IGNORECASE)
